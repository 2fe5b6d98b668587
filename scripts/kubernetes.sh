#!/usr/bin/env bash
# Make sure that a real Kubernetes is there for `make test-kubernetes`: etcd, its servers, kubelet, kube-proxy, kubectl,
# containerd, and the images that the pods run. No package holds the servers, so they are built from the source package
# that Debian has (Kubernetes 1.20.2), once: a quarter of an hour on one core, 4 GB while it lasts, 500 MB afterwards.
# That is why it is never part of `make test`. Does nothing when everything is there already and nothing changed.
#
# With arguments it then runs them as a command on what looks like a machine of its own: a network with nothing but this
# machine in it, and processes and mounts that end with the command. The cluster of the tests listens on several
# addresses and writes packet filters; nothing of it can be reached from outside, and nothing is left behind.
#
#   ASSAY_KUBERNETES   folder that keeps what was built (~/.cache/assay/kubernetes)
set -euo pipefail
cd "$(dirname "$0")/.."
export PATH="$PATH:/usr/sbin:/sbin"
keep=$(realpath -m "${ASSAY_KUBERNETES:-${XDG_CACHE_HOME:-$HOME/.cache}/assay/kubernetes}")
parts=(kube-apiserver kube-scheduler kube-controller-manager kubelet kube-proxy kubectl)
cni=/usr/lib/cni/bridge

stop() { echo "$*" >&2; exit 1; }

apt() { DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@"; }

install() { apt install -y --no-install-recommends "$@" >/dev/null; }

# What is started beside the servers, and what makes the images.
install_missing() {
  local wanted=()
  while read -r program package; do
    command -v "$program" >/dev/null 2>&1 || wanted+=("$package")
  done <<'END'
etcd etcd-server
containerd containerd
runc runc
iptables iptables
ip iproute2
dnsmasq dnsmasq-base
openssl openssl
podman podman
busybox busybox-static
mmdebstrap mmdebstrap
END
  [ -x "$cni" ] || wanted+=(containernetworking-plugins)
  [ ${#wanted[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null 2>&1 || stop "not found: ${wanted[*]}; install them by hand"
  echo "installing ${wanted[*]} for the tests of Kubernetes"
  apt update
  install "${wanted[@]}"
}

fetch_sources() {
  local tree=$1 work=$keep/build vendored=$1/vendor/github.com/modern-go/reflect2
  apt update
  install golang-go golang-github-modern-go-reflect2-dev make rsync
  [ ! -e "$tree/.fetched" ] || return 0
  # Sources are in no list of most machines: they get lists of their own, and the machine's stay as they are.
  rm -rf "$work" && mkdir -p "$work/sources" "$work/lists/partial" "$tree"
  if [ -f /etc/apt/sources.list.d/debian.sources ]; then
    sed 's/^Types: deb.*/Types: deb-src/' /etc/apt/sources.list.d/debian.sources > "$work/sources/debian.sources"
  else
    sed -n 's/^deb /deb-src /p' /etc/apt/sources.list > "$work/sources/debian.list"
  fi
  local own=(-o "Dir::Etc::SourceParts=$work/sources" -o Dir::Etc::SourceList=/dev/null
             -o "Dir::State::Lists=$work/lists")
  apt "${own[@]}" update
  (cd "$work" && apt "${own[@]}" source --download-only kubernetes)
  tar xzf "$work"/kubernetes_*.orig.tar.gz -C "$tree" --strip-components=1
  # The release that is vendored breaks with Go 1.18 and newer: the server dies on the first map that it encodes.
  rm "$vendored"/*.go "$vendored"/*.s
  cp /usr/share/gocode/src/github.com/modern-go/reflect2/*.{go,s} "$vendored"
  mkdir -p "$tree/.go/src/k8s.io" && ln -sfn ../../.. "$tree/.go/src/k8s.io/kubernetes"
  touch "$tree/.fetched"
}

build() {
  local missing=() part begin tree=$keep/build/kubernetes log=$keep/build.log
  for part in "${parts[@]}"; do [ -x "$keep/bin/$part" ] || missing+=("$part"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null 2>&1 || stop "no Kubernetes in $keep/bin, and only Debian has its source package"
  echo "building Kubernetes into $keep: about a quarter of an hour; its output goes to $log"
  mkdir -p "$keep/bin"
  # shellcheck disable=SC2064  # the log is this one
  trap "tail -n 20 '$log' >&2; echo 'Kubernetes could not be built' >&2" EXIT
  fetch_sources "$tree" > "$log" 2>&1
  for part in "${missing[@]}"; do
    begin=$SECONDS
    # -buildvcs=false: the tree may lie inside of a repository that is not its own.
    (cd "$tree" && GOPATH=$tree/.go GOFLAGS=-buildvcs=false CGO_ENABLED=0 KUBE_GIT_VERSION=v1.20.2 \
      KUBE_GIT_COMMIT=debian KUBE_GIT_TREE_STATE=archive KUBE_GIT_MAJOR=1 KUBE_GIT_MINOR=20 \
      make WHAT="cmd/$part" GOLDFLAGS='-s -w') >> "$log" 2>&1
    cp "$(find "$tree/_output" -type f -name "$part" -perm -100 -print -quit)" "$keep/bin/$part.new"
    mv "$keep/bin/$part.new" "$keep/bin/$part"
    echo "  $part after $((SECONDS - begin)) s"
  done
  trap - EXIT
  chmod -R u+w "$keep/build" && rm -rf "$keep/build"
}

[ "$(id -u)" = 0 ] || stop "only root can start nodes and containers: run the tests of Kubernetes as root"
mkdir -p "$keep"
exec 9> "$keep/.lock"
flock 9  # two of us would build the same
install_missing
build
scripts/kubernetes_images.sh "$keep"
scripts/deploy.sh
scripts/system_images.sh --archive
exec 9>&-
[ $# -gt 0 ] || exit 0
export ASSAY_KUBERNETES=$keep ASSAY_KUBERNETES_ALONE=1
export ASSAY_SYSTEM_IMAGES="${ASSAY_SYSTEM_IMAGES:-${XDG_CACHE_HOME:-$HOME/.cache}/assay/system}"
# The shell stays, as the first process of its machine: it takes in the orphans of the others.
# shellcheck disable=SC2016  # the inner shell expands them
exec unshare --net --mount --pid --fork --kill-child --mount-proc sh -c 'ip link set lo up && "$@"; exit $?' sh "$@"
