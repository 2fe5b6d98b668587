#!/usr/bin/env bash
# Make sure that Podman and Charliecloud are there for the tests of services in containers. Without them, and without
# the right to install them, those tests are skipped and say so. The tests build their images on the spot.
set -euo pipefail
if command -v podman >/dev/null 2>&1 && command -v ch-run >/dev/null 2>&1 && command -v mksquashfs >/dev/null 2>&1 \
   && command -v busybox >/dev/null 2>&1; then exit 0; fi
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "installing Podman and Charliecloud for the tests of containers"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends podman runc \
    containernetworking-plugins busybox-static uidmap charliecloud python3-lark python3-requests squashfs-tools >/dev/null
  exit 0
fi
echo "Podman or Charliecloud not found: the tests that need them will be skipped" >&2
