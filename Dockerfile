# Two stages: what builds stays behind. The result runs as user 65532, and works on a read-only root file system: it writes
# only below /var/lib/dovetail, where the charts mount a volume.
# The tag names one release of Python. For a reproducible build, pass a digest: --build-arg PYTHON_IMAGE=python@sha256:...
# `make sbom` writes what the build stage installs as CycloneDX, in dist/dovetail.cdx.json.
ARG PYTHON_IMAGE=python:3.13.9-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
RUN python -m venv /opt/dovetail
WORKDIR /src
# Dependencies with hashes, and the extras aws, highs and otel.
COPY requirements/run.lock requirements/run.lock
RUN /opt/dovetail/bin/pip install --require-hashes -r requirements/run.lock
COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN /opt/dovetail/bin/pip install --no-deps --no-build-isolation . \
 && /opt/dovetail/bin/pip uninstall --yes editables hatchling \
 && /opt/dovetail/bin/dovetail --version

FROM ${PYTHON_IMAGE}
COPY --from=build /opt/dovetail /opt/dovetail
ENV PATH=/opt/dovetail/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
RUN mkdir -p /var/lib/dovetail && chown 65532:65532 /var/lib/dovetail
USER 65532:65532
EXPOSE 8080 8081 8088
ENTRYPOINT ["dovetail"]
CMD ["run"]
