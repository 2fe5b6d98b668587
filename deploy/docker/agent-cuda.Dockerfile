# An agent for NVIDIA GPUs: ONNX Runtime with CUDA, or PyTorch by --build-arg EXTRAS=llm,gpu,redis,torch.
# From the root of the tree:
#   podman build --file deploy/docker/agent-cuda.Dockerfile --tag assay-agent-cuda .
ARG CUDA_IMAGE=docker.io/nvidia/cuda:12.9.1-cudnn-runtime-ubuntu24.04

FROM ${CUDA_IMAGE} AS build
ARG EXTRAS=llm,gpu,redis
RUN apt-get update && apt-get install --yes --no-install-recommends python3 python3-venv && rm -rf /var/lib/apt/lists/*
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY deploy deploy
COPY src src
# The same version as the package for processors: only one of the two can be installed.
RUN python3 -m venv /opt/assay \
    && version="$(sed -n 's/^onnxruntime==\([0-9.]*\).*/\1/p' constraints.txt)" \
    && /opt/assay/bin/pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt \
        onnx "onnxruntime-gpu==${version}" ".[${EXTRAS}]"

FROM ${CUDA_IMAGE}
LABEL org.opencontainers.image.title="assay agent with CUDA" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN apt-get update && apt-get install --yes --no-install-recommends python3 tini && rm -rf /var/lib/apt/lists/*
RUN useradd --uid 10001 --home-dir /var/lib/assay --create-home --shell /usr/sbin/nologin assay
COPY --from=build /opt/assay /opt/assay
ENV PATH=/opt/assay/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    ASSAY_AGENT_STATE=/var/lib/assay/agent \
    ASSAY_CACHE=/var/lib/assay/cache \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility
USER 10001
WORKDIR /var/lib/assay
ENTRYPOINT ["tini", "--", "assay"]
CMD ["agent", "start"]
