#!/usr/bin/env bash
# Make sure that a real Slurm is there for the tests of the cluster engine. Without one, and without the right to install
# one, those tests are skipped and say so. The tests start and stop it themselves, in a temporary folder.
set -euo pipefail
export PATH="$PATH:/usr/sbin:/sbin"
missing=0
for program in munged slurmctld slurmd slurmrestd sbatch sacct; do
  command -v "$program" >/dev/null 2>&1 || missing=1
done
if [ "$missing" = 0 ]; then exit 0; fi
if command -v apt-get >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
  echo "installing Slurm for the tests of the cluster engine"
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    slurm-wlm munge slurmrestd slurm-wlm-jwt-plugin >/dev/null
  exit 0
fi
echo "no Slurm found: the tests that need one will be skipped" >&2
