# An agent for processors, with ONNX Runtime. From the root of the tree:
#   podman build --file deploy/docker/agent.Dockerfile --tag assay-agent .
ARG PYTHON_IMAGE=docker.io/library/python:3.12-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ARG EXTRAS=onnx,llm,redis
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY deploy deploy
COPY src src
RUN python3 -m venv /opt/assay \
    && /opt/assay/bin/pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt ".[${EXTRAS}]"

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="assay agent" \
      org.opencontainers.image.licenses="Apache-2.0"
# The first process of a container must bury what measured programs leave behind.
RUN command -v tini \
    || { apt-get update && apt-get install --yes --no-install-recommends tini && rm -rf /var/lib/apt/lists/*; }
RUN useradd --uid 10001 --home-dir /var/lib/assay --create-home --shell /usr/sbin/nologin assay
COPY --from=build /opt/assay /opt/assay
ENV PATH=/opt/assay/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    ASSAY_AGENT_STATE=/var/lib/assay/agent \
    ASSAY_CACHE=/var/lib/assay/cache
USER 10001
WORKDIR /var/lib/assay
ENTRYPOINT ["tini", "--", "assay"]
CMD ["agent", "start"]
