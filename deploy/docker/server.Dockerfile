# The server with its database drivers, and no model runtime. From the root of the tree, with the dashboard built:
#   make web
#   podman build --file deploy/docker/server.Dockerfile --tag assay-server .
ARG PYTHON_IMAGE=docker.io/library/python:3.12-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ARG EXTRAS=server,s3,kubernetes
WORKDIR /src
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY deploy deploy
COPY src src
RUN python3 -m venv /opt/assay \
    && /opt/assay/bin/pip install --no-cache-dir --disable-pip-version-check --constraint constraints.txt ".[${EXTRAS}]"

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="assay server" \
      org.opencontainers.image.licenses="Apache-2.0"
# A number, so that a cluster can see without asking that it is not root.
RUN useradd --uid 10001 --home-dir /var/lib/assay --create-home --shell /usr/sbin/nologin assay
COPY --from=build /opt/assay /opt/assay
ENV PATH=/opt/assay/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    ASSAY_SERVER_HOST=0.0.0.0 \
    ASSAY_SERVER_PORT=8080 \
    ASSAY_SERVER_FOLDER=/var/lib/assay
USER 10001
WORKDIR /var/lib/assay
EXPOSE 8080
ENTRYPOINT ["assay"]
CMD ["serve"]
