#!/usr/bin/env bash
# Make .venv-milvus, the environment of `make test-milvus`: a real Milvus server of one process. About two minutes and
# 480 MB, so it is never part of `make test`. Does nothing when it is there already and nothing changed.
#
# With arguments it then runs them as a command in a network of its own, in which there is nothing but this machine:
# Milvus listens on every address that it finds, and a server of the tests must not be reachable from outside.
#
#   PYTHON   interpreter to make it with (python3)
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-milvus
stamp=$venv/.installed
want=$(cksum < scripts/milvus.sh)
if ! { [ -x "$venv/bin/python" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$want" ]; }; then
  echo "installing Milvus into $venv: about two minutes"
  [ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"
  # Its client, which the package brings along, needs what newer releases of the last two have dropped.
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 5 \
    milvus==2.3.5 pymilvus==2.3.7 'setuptools<81' 'marshmallow<4'
  echo "$want" > "$stamp"
fi
[ $# -gt 0 ] || exit 0
map_user=$([ "$(id -u)" = 0 ] || echo --map-root-user)
# shellcheck disable=SC2086  # no user to map is no argument
exec unshare --net $map_user sh -c 'ip link set lo up && exec "$@"' sh "$@"
