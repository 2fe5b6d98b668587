#!/usr/bin/env bash
# Make sure that a Redis server is there for the tests of the queue. Without one, and without the right to install one,
# those tests are skipped and say so. The tests start and stop it themselves, on a free port.
set -euo pipefail
if command -v redis-server >/dev/null 2>&1; then exit 0; fi
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "installing Redis for the queue tests"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends redis-server >/dev/null
  exit 0
fi
echo "no Redis server found: the tests that need one will be skipped" >&2
