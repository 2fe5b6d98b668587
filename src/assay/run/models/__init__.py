"""Model sources: a path, a URL or a built-in name becomes a verified local file.

sources.py   `resolve`, which decides what kind of source it is; local files
folder.py    language models, which are folders or come from the Hugging Face hub
download.py  URLs: try, resume, verify, keep
transport.py connects only where the policy allows
cache.py     the cache's entries, their locks and their notes; digests
builtin.py   small networks that come with the `onnx` package, with a dynamic batch
graph.py     the outline of an ONNX file, without its weights, and the files that it names
"""

from __future__ import annotations

from assay.run.models.sources import BuiltinModel, LocalModel, builtin_models, resolve

__all__ = ["BuiltinModel", "LocalModel", "builtin_models", "resolve"]
