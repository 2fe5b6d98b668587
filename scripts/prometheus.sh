#!/usr/bin/env bash
# Make sure that Prometheus and its node exporter are there for the tests of monitoring. Without them, and without the
# right to install them, those tests are skipped and say so. The tests start and stop them themselves, on free ports.
set -euo pipefail
if command -v prometheus >/dev/null 2>&1 && command -v prometheus-node-exporter >/dev/null 2>&1; then exit 0; fi
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "installing Prometheus for the monitoring tests"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus prometheus-node-exporter >/dev/null
  exit 0
fi
echo "no Prometheus found: the tests that need it will be skipped" >&2
