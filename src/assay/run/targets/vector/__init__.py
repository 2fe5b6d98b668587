"""Vector search as a target: the same corpus, queries and truth for every engine, recall beside every figure.

oracle.py, known.py, recall.py            the true neighbours, kept, and what answers are worth beside them
engine.py                                 what every engine must do
rest.py, qdrant.py, chroma.py, milvus.py  engines over HTTP
pgvector.py, faiss_index.py               engines that are called
over_http.py                              searches sent by the load loop for HTTP
turns.py, crew.py, in_threads.py          searches called from threads
searches.py, report.py                    what a load leaves, and its figures
measure.py                                one run, which puts them together
"""

from __future__ import annotations

from assay.run.targets.vector.measure import measure

__all__ = ["measure"]
