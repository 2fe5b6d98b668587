#!/usr/bin/env bash
# Make the images of the whole system with Podman, from the Dockerfiles of deploy/docker and this very tree, for the
# tests of Compose and of the Helm chart. No registry is asked: Debian's packages are the base, and what PostgreSQL,
# Redis and Prometheus publish as images is made of the same programs, which take the same variables and words.
# Does nothing when they are there already and nothing changed.
#
#   scripts/system_images.sh COMMAND …   makes them, then runs a command whose Podman and Compose use them
#   scripts/system_images.sh --archive   writes them to images.tar in their folder, for nodes of a cluster
#   ASSAY_SYSTEM_IMAGES                  that folder (~/.cache/assay/system)
#   PYTHON                               interpreter for podman-compose, where the machine has none (python3)
set -euo pipefail
cd "$(dirname "$0")/.."
keep=$(realpath -m "${ASSAY_SYSTEM_IMAGES:-${XDG_CACHE_HOME:-$HOME/.cache}/assay/system}")
context=$keep/context
tree=$PWD
compose=podman-compose==1.6.0
release=bookworm   # whose Python is 3.11, and whose PostgreSQL 15
packages=python3,python3-venv,tini,ca-certificates,postgresql,redis-server,prometheus,systemd-sysv,dbus
version=$(sed -n 's/^__version__ = "\(.*\)"/\1/p' src/assay/version.py)
export PATH="$tree/.venv-deploy/bin:$PATH:/usr/sbin:/sbin"
export CONTAINERS_CONF=$keep/containers.conf CONTAINERS_STORAGE_CONF=$keep/storage.conf
export PYTHON_IMAGE=localhost/assay-test-python:1
export ASSAY_POSTGRESQL_IMAGE=localhost/assay-test-postgresql:1
export ASSAY_REDIS_IMAGE=localhost/assay-test-redis:1
export ASSAY_PROMETHEUS_IMAGE=localhost/assay-test-prometheus:1

stop() { echo "$*" >&2; exit 1; }

install_missing() {
  local wanted=()
  while read -r program package; do
    command -v "$program" >/dev/null 2>&1 || wanted+=("$package")
  done <<'END'
podman podman
runc runc
mmdebstrap mmdebstrap
iptables iptables
END
  # The names of containers on a network are told by the second of these.
  for part in netavark aardvark-dns; do [ -x "/usr/lib/podman/$part" ] || wanted+=("$part"); done
  [ ${#wanted[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null 2>&1 || stop "not found: ${wanted[*]}; install them by hand"
  echo "installing ${wanted[*]} for the tests of containers"
  DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 update
  DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends \
    "${wanted[@]}" >/dev/null
}

# Debian's does not know --env-file.
install_compose() {
  ! podman-compose version >/dev/null 2>&1 || return 0
  [ -x .venv-deploy/bin/python ] || "${PYTHON:-python3}" -m venv .venv-deploy
  .venv-deploy/bin/python -m pip install --quiet --disable-pip-version-check --retries 5 "$compose"
}

# A store of its own: the images of whoever runs the tests stay as they are. The limits are those that a small virtual
# machine allows, and nothing asks for systemd.
settings() {
  mkdir -p "$context"
  cat > "$CONTAINERS_CONF" <<END
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[network]
network_backend = "netavark"
network_config_dir = "$keep/networks"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
volume_path = "$keep/volumes"
END
  cat > "$CONTAINERS_STORAGE_CONF" <<END
[storage]
driver = "overlay"
graphroot = "$keep/storage"
runroot = "$keep/run"
END
}

base() {
  local made="$release $packages"
  if [ -f "$context/base.tar" ] && [ "$(cat "$context/base.made" 2>/dev/null)" = "$made" ]; then return 0; fi
  local sources=/etc/apt/sources.list
  [ ! -f /etc/apt/sources.list.d/debian.sources ] || sources=/etc/apt/sources.list.d/debian.sources
  mmdebstrap --quiet --variant=minbase --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    --include="$packages" \
    "$release" "$context/base.new.tar" - < "$sources"
  mv "$context/base.new.tar" "$context/base.tar"
  echo "$made" > "$context/base.made"
}

# What the image that the PostgreSQL project publishes does with the same variables.
write_context() {
  cp /etc/ssl/certs/ca-certificates.crt "$context/authorities.crt"   # those that this machine believes
  cat > "$context/start-postgresql" <<'END'
#!/bin/sh
set -eu
: "${PGDATA:=/var/lib/postgresql/data}"
export PGDATA
if [ "$(id -u)" = 0 ]; then
  mkdir -p "$PGDATA" /var/run/postgresql
  chown -R 999:999 "$PGDATA" /var/run/postgresql
  exec setpriv --reuid=999 --regid=999 --clear-groups "$0" "$@"
fi
mkdir -p "$PGDATA"
chmod 700 "$PGDATA"   # a volume that was mounted for a group of users lets the group in, which the server refuses
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  umask 077
  printf %s "$POSTGRES_PASSWORD" > /tmp/password
  initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-host=scram-sha-256 --auth-local=trust
  rm /tmp/password
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  pg_ctl start -w -o '-c listen_addresses='
  [ "$POSTGRES_DB" = postgres ] || createdb --username="$POSTGRES_USER" "$POSTGRES_DB"
  pg_ctl stop -w -m fast
fi
exec postgres -c listen_addresses='*'
END
  chmod +x "$context/start-postgresql"
  cat > "$context/Containerfile" <<'END'
FROM scratch AS python
ADD base.tar /
COPY authorities.crt /etc/ssl/certs/ca-certificates.crt
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt LANG=C.UTF-8
RUN ln -sf python3 /usr/bin/python && usermod --non-unique --uid 999 postgres \
    && groupmod --non-unique --gid 999 postgres

FROM python AS postgresql
COPY start-postgresql /usr/local/bin/
RUN mkdir -p /var/lib/postgresql/data /var/run/postgresql && chown -R 999:999 /var/lib/postgresql /var/run/postgresql
ENV PATH=/usr/lib/postgresql/15/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
VOLUME /var/lib/postgresql/data
ENTRYPOINT ["start-postgresql"]

FROM python AS redis
RUN mkdir -p /data && chown 999:999 /data
VOLUME /data
WORKDIR /data

FROM python AS prometheus
RUN mkdir -p /prometheus && chown 65534:65534 /prometheus
VOLUME /prometheus
USER 65534
ENTRYPOINT ["prometheus"]
END
}

# In the order in which each is the base of the next. With this machine's own network: on some, no other gets out.
build() {
  local part name
  podman image prune --force >/dev/null   # layers of an older tree
  for part in python postgresql redis prometheus; do
    podman build --quiet --layers --file "$context/Containerfile" --target "$part" \
      --tag "localhost/assay-test-$part:1" "$context" >/dev/null
  done
  for name in server agent; do
    podman build --quiet --layers --network host --build-arg PYTHON_IMAGE --file "deploy/docker/$name.Dockerfile" \
      --tag "localhost/assay-test-$name:1" . >/dev/null
  done
}

digest() {
  { find src/assay deploy/docker -type f ! -name '*.pyc' -print0 | sort -z
    printf '%s\0' pyproject.toml constraints.txt scripts/system_images.sh
  } | xargs -0 sha256sum | sha256sum
}

[ "$(id -u)" = 0 ] || stop "only root can start containers on a network of their own here: run this as root"
install_missing
install_compose
settings
scripts/web.sh
want=$(digest)
if [ "$(cat "$keep/.made" 2>/dev/null)" != "$want" ]; then
  echo "making the images of the whole system"
  rm -f "$keep/images.tar"
  base
  write_context
  build
  echo "$want" > "$keep/.made"
fi
if [ "${1:-}" = --archive ]; then
  [ ! -f "$keep/images.tar" ] || exit 0
  # Under the names that the chart looks for; a system that is destroyed takes those with it, and the layers stay.
  for name in server agent; do podman tag "localhost/assay-test-$name:1" "localhost/assay-$name:$version"; done
  podman save --quiet --multi-image-archive --format docker-archive --output "$keep/images.new.tar" \
    "localhost/assay-server:$version" "localhost/assay-agent:$version" \
    "$ASSAY_POSTGRESQL_IMAGE" "$ASSAY_REDIS_IMAGE" "$ASSAY_PROMETHEUS_IMAGE"
  mv "$keep/images.new.tar" "$keep/images.tar"
  exit 0
fi
[ $# -eq 0 ] || exec "$@"
