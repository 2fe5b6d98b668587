"""Models in folders: what they are, read from their headers alone; nothing that a file holds is ever run.

finding.py      walks folders and knows the formats
gguf.py         GGUF headers
tensors.py      safetensors headers, and what a set of tensors amounts to
described.py    ONNX, OpenVINO, Hugging Face folders, archives
"""

from __future__ import annotations

from assay.hardware.models.search import find_models

__all__ = ["find_models"]
