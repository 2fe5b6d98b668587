#!/usr/bin/env bash
# Make sure that a Chromium is there for the tests that look at reports. Without one, and without the right to
# install one, those tests are skipped and say so.
set -euo pipefail
for name in "${ASSAY_CHROMIUM:-}" chromium chromium-browser google-chrome \
            "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"; do
  if [ -n "$name" ] && command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "installing chromium for the report tests"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
  exit 0
fi
echo "no Chromium found: the tests that open reports in a browser will be skipped" >&2
