"""Vector search as a target: the same corpus, queries and truth for every database, recall beside every figure.

collection.py                       what every database must do, by how it is reached
qdrant.py, chroma.py, milvus.py     databases over HTTP
pgvector.py, faiss_index.py         databases that are called
access.py                           from a target to a collection within reach
http.py, threads.py, workers.py     searches sent by the load loop for HTTP, or called from threads
oracle.py, report.py                true neighbours and recall; what a load leaves, and its figures
measure.py                          one run, which puts them together
"""
