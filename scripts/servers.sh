#!/usr/bin/env bash
# Make sure that the real servers of the tests are there: llama.cpp with a small model, PostgreSQL with pgvector, Chroma.
# They live in an environment of their own, .venv-servers, so that the project's stays as small as a user's. Without
# them the tests that need one are skipped and say so; with ASSAY_REQUIRE_SERVERS=1 that is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-servers
pins=scripts/servers.txt
constraints=scripts/servers-constraints.txt
want=$(cat "$pins" "$constraints" | cksum)
if [ -x "$venv/bin/python" ] && [ "$(cat "$venv/.installed" 2>/dev/null)" = "$want" ]; then exit 0; fi

install() {
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 5 --constraint "$constraints" "$@"
}

make_it() {
  [ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
  grep -v '^#' "$pins" | grep -v 'no-deps' > "$venv/with-deps.txt"
  grep -v '^#' "$pins" | grep 'no-deps' | sed 's/ *#.*//' > "$venv/no-deps.txt"
  # A download can break off; what is already there is not fetched again.
  for _ in 1 2 3; do
    if install --requirement "$venv/with-deps.txt" && install --no-deps --requirement "$venv/no-deps.txt"; then
      echo "$want" > "$venv/.installed"
      return 0
    fi
    sleep 2
  done
  return 1
}

echo "installing the servers that the tests measure (llama.cpp, pgvector, Chroma) into $venv"
log=$(mktemp)
if (make_it) > "$log" 2>&1; then rm -f "$log"; exit 0; fi
tail -n 5 "$log" >&2
rm -f "$log"
echo "the servers could not be installed: the tests that need them will be skipped" >&2
[ "${ASSAY_REQUIRE_SERVERS:-0}" != 1 ]
