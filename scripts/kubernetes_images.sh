#!/usr/bin/env bash
# Make the images of `make test-kubernetes` with Podman: Debian with Python and assay from this very tree, for the jobs,
# and one that only sleeps, for the network of a pod. No registry is asked: Debian's packages are the base.
# Does nothing when they are there already and nothing changed.
#
#   scripts/kubernetes_images.sh FOLDER   writes FOLDER/images/assay.tar and FOLDER/images/pause.tar
#   PYTHON                                interpreter whose pip is used where there is no .venv (python3)
set -euo pipefail
cd "$(dirname "$0")/.."
keep=${1:?a folder}
images=$keep/images
context=$images/context
python=.venv/bin/python
[ -x "$python" ] || python=${PYTHON:-python3}
release=bookworm   # whose Python is 3.11
mkdir -p "$context"

# The content of what goes into the image, without what Python leaves behind.
digest() {
  find src/assay pyproject.toml constraints.txt scripts/kubernetes_images.sh tests/fixtures/benchmark_ai \
    -type f ! -name '*.pyc' -print0 2>/dev/null | sort -z | xargs -0 sha256sum | sha256sum
}

want=$(digest)
if [ -f "$images/assay.tar" ] && [ -f "$images/pause.tar" ] && [ "$(cat "$images/.made" 2>/dev/null)" = "$want" ]; then
  exit 0
fi
echo "making the images that the pods run"

pip() { "$python" -m pip --quiet --disable-pip-version-check --retries 5 "$@"; }

base() {
  [ ! -f "$context/base.tar" ] || return 0
  local sources=/etc/apt/sources.list
  [ ! -f /etc/apt/sources.list.d/debian.sources ] || sources=/etc/apt/sources.list.d/debian.sources
  mmdebstrap --quiet --variant=minbase --include=python3 --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/locale/*' \
    "$release" "$context/base.new.tar" - < "$sources"
  mv "$context/base.new.tar" "$context/base.tar"
}

# A layer of its own, which changes only with what assay needs.
needed() {
  local needs wheels
  needs=$("$python" - <<'END'
import tomllib
from pathlib import Path

print(*tomllib.loads(Path("pyproject.toml").read_text())["project"]["dependencies"], sep="\n")
END
  )
  wheels=$(printf '%s\n' "$needs" | cat - constraints.txt | cksum)
  if [ "$(cat "$context/needed.made" 2>/dev/null)" = "$wheels" ]; then return 0; fi
  rm -rf "$context/needed"
  printf '%s\n' "$needs" > "$context/needed.txt"
  pip install --target "$context/needed" --python-version 3.11 --only-binary :all: --constraint constraints.txt \
    --requirement "$context/needed.txt"
  echo "$wheels" > "$context/needed.made"
}

own() {
  rm -rf "$context/own" "$context/bin" "$context/wheel" "$context/samples"
  pip wheel --no-deps --wheel-dir "$context/wheel" .
  pip install --no-deps --target "$context/own" "$context"/wheel/*.whl
  mkdir -p "$context/bin" "$context/samples"
  printf '#!/bin/sh\nexec python3 -m assay "$@"\n' > "$context/bin/assay"
  chmod +x "$context/bin/assay"
  ln -s /usr/bin/python3 "$context/bin/python"
  if [ -d tests/fixtures/benchmark_ai ]; then cp -r tests/fixtures/benchmark_ai/. "$context/samples"; fi
}

build() {
  cp "$(command -v busybox)" "$context/busybox"
  cat > "$context/Containerfile.pause" <<'END'
FROM scratch
COPY busybox /bin/busybox
ENTRYPOINT ["/bin/busybox", "sleep", "1000000000"]
END
  cat > "$context/Containerfile.assay" <<'END'
FROM scratch
ADD base.tar /
COPY needed /opt/assay/needed
COPY bin /opt/assay/bin
COPY own /opt/assay/own
COPY samples /bench
ENV PATH=/opt/assay/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 HOME=/root
ENV PYTHONPATH=/opt/assay/own:/opt/assay/needed
WORKDIR /bench
END
  cat > "$images/containers.conf" <<'END'
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
END
  export CONTAINERS_CONF=$images/containers.conf
  # A store of its own: the images of whoever runs the tests stay as they are.
  local podman=(podman --root "$images/store" --runroot "$images/store.run") name
  for name in pause assay; do
    "${podman[@]}" build --quiet --file "$context/Containerfile.$name" --tag "localhost/$name:test" \
      "$context" >/dev/null
    rm -f "$images/$name.new.tar"
    "${podman[@]}" save --quiet --format docker-archive --output "$images/$name.new.tar" "localhost/$name:test"
    mv "$images/$name.new.tar" "$images/$name.tar"
  done
  "${podman[@]}" image prune --force >/dev/null
}

base
needed
own
build
echo "$want" > "$images/.made"
