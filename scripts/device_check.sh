#!/usr/bin/env bash
# Know and measure the hardware of this machine: `assay info`, `assay doctor`, examples/device-gpu.yaml through
# `assay run`, and a bare loop of PyTorch beside it. For a machine with a GPU and PyTorch; no network and no
# installation are needed. Each step is tried whatever became of the one before, and says how it ended.
#
#   scripts/device_check.sh [FOLDER]     FOLDER keeps texts, JSON and the store (a temporary one when left out)
#
#   PYTHON     interpreter that has PyTorch (python3)
#   DEVICE     what to measure (cuda); DEVICE=cpu tries the script itself on any machine
#   PACKAGES   folder with further packages, for a machine that cannot install any. Made elsewhere by
#              pip install --target FOLDER --python-version 3.12 --only-binary=:all: pydantic psutil …
#   EACH       time for each size of each test (500ms)
#   RUNS       fresh processes (3)
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
folder=${1:-$(mktemp -d)}
device=${DEVICE:-cuda}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
if ! command -v "$python" >/dev/null 2>&1; then echo "no $python here: set PYTHON"; exit 2; fi

# Leave what `pip install` would: the metadata by which targets are found.
ROOT="$root" FOLDER="$folder" "$python" - <<'PYTHON'
import os
import tomllib
from pathlib import Path

project = tomllib.loads((Path(os.environ["ROOT"]) / "pyproject.toml").read_text())["project"]
metadata = Path(os.environ["FOLDER"]) / "metadata" / f"assay_bench-{project['version']}.dist-info"
metadata.mkdir(parents=True, exist_ok=True)
(metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: assay-bench\nVersion: {project['version']}\n")
groups = project["entry-points"]
text = "\n".join(f"[{name}]\n" + "\n".join(f"{k} = {v}" for k, v in one.items()) for name, one in groups.items())
(metadata / "entry_points.txt").write_text(text + "\n")
PYTHON

# The packages brought along come last: what the machine has fits its PyTorch. A path of Python's own does that.
if [ -n "${PACKAGES:-}" ]; then
  mkdir -p "$folder/last"
  printf 'import sys\nsys.path.append(%s)\n' "'$(cd "$PACKAGES" && pwd)'" >"$folder/last/sitecustomize.py"
  last=":$folder/last"
fi
export PYTHONPATH="$root/src:$folder/metadata${last:-}${PYTHONPATH:+:$PYTHONPATH}"
export ASSAY_STORE="$folder/store" ASSAY_CACHE="$folder/cache"
failed=0

step() { # NAME COMMAND…: its output to NAME, its errors to NAME.log
  local name=$1 code
  shift
  "$@" >"$folder/$name" 2>"$folder/$name.log"
  code=$?
  [ -s "$folder/$name.log" ] || rm -f "$folder/$name.log"
  echo "$name: ended with $code, $(wc -c <"$folder/$name") bytes"
  # 1 says that a check failed, and the result is there all the same.
  if [ "$code" -gt 1 ]; then
    failed=1
    tail -n 5 "$folder/$name.log" 2>/dev/null
  fi
  return 0
}

assay() { "$python" -m assay "$@"; }

if command -v nvidia-smi >/dev/null 2>&1; then step nvidia-smi.txt nvidia-smi; fi
step info.txt assay info
step info.json assay info --format json
step doctor.txt assay doctor
step doctor.json assay doctor --format json
step list.txt assay device list
settings=(--set "target.device=$device" --set "target.each=${EACH:-500ms}" --set "measure.runs=${RUNS:-3}")
step run.txt assay run "$root/examples/device-gpu.yaml" --quiet --fresh --out "$folder/reports" "${settings[@]}"
step bench.txt assay device bench --device "$device" --each "${EACH:-500ms}" --runs 1 --quiet
shapes=()
if [ "$device" = cpu ]; then shapes=(--shapes 256,512 --megabytes 64 --seconds 0.1); fi
step bare.json "$python" "$root/scripts/device_bare.py" --device "$device" "${shapes[@]+"${shapes[@]}"}"
cat "$folder/run.txt" "$folder/bench.txt"
echo "texts, JSON and results are in $folder"
exit $failed
