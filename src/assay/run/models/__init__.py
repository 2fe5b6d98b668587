"""Model sources: a path, a URL or a built-in name becomes a verified local file.

sources.py   `resolve`, which decides what kind of source it is; local files
folder.py    language models, which are folders
hub.py       models of the Hugging Face hub
fetch.py     URLs: try, verify, keep
transfer.py  one HTTP transfer: redirects, ranges, limits
policy.py    which addresses may be connected to
cache.py     the cache's entries, their locks and their notes
digest.py    digests of models
builtin.py   small networks that come with the `onnx` package
batch.py     gives a network of fixed batch 1 a dynamic batch
graph.py     the outline of an ONNX file, without its weights
"""

from __future__ import annotations

from assay.run.models.builtin import BuiltinModel, builtin_models
from assay.run.models.sources import LocalModel, resolve

__all__ = ["BuiltinModel", "LocalModel", "builtin_models", "resolve"]
