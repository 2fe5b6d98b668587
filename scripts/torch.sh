#!/usr/bin/env bash
# Make .venv-torch, the environment of `make test-torch`: PyTorch and Transformers stay out of .venv, because assay
# does not need them and they are large. Does nothing when it is there already and nothing has changed.
#
#   PYTHON   interpreter to make it with (python3)
#   TORCH    which PyTorch, for example another version or a wheel file (torch==2.13.0)
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-torch
stamp=$venv/.installed
if [ -f "$stamp" ] && [ "$stamp" -nt pyproject.toml ] && [ "$stamp" -nt scripts/torch.sh ]; then exit 0; fi
echo "installing PyTorch and Transformers into $venv"
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }
install "${TORCH:-torch==2.13.0}" transformers==5.22.2 tokenizers==0.23.3 safetensors==0.8.0 huggingface_hub==2.4.0 \
  jinja2==3.1.6 rouge-score==0.1.2
# What `transformers serve` needs besides: the server that comes with Transformers is measured too.
install --constraint constraints.txt accelerate==1.15.0 openai==3.49.0 fastapi uvicorn
install --constraint constraints.txt pytest pytest-timeout hypothesis --editable .
touch "$stamp"
