# One image for every role: `docker build --tag ghapp:0.2.0 .`, then `docker run ghapp:0.2.0 web`, `… worker`, and so on.
# For several platforms: `docker buildx build --platform linux/amd64,linux/arm64 .`; nothing here depends on one.
# Both stages are of one Python: what the first installs points to it. A release pins it by digest: release.yml resolves
# the tag once and builds all platforms with PYTHON=3.11-slim@sha256:…; the image's provenance has the digest.
ARG PYTHON=3.11-slim

FROM python:${PYTHON} AS build
ENV PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_CACHE_DIR=1 PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY pyproject.toml setup.py requirements.txt README.md LICENSE NOTICE app.yml ./
COPY ghapp ghapp
COPY jobs jobs
RUN python -m venv /opt/ghapp
# Wheels alone, each by its hash: nothing is compiled, here or later, so there is no compiler in either stage. githubkit's
# models of GitHub's API, which nothing imports, would be a third of the image's packages; they are not in the file.
# It ends, for the image, before what only development needs. The build backend is in it, so there is no isolated build.
RUN sed '/^# What only development needs/,$d' requirements.txt > image.txt \
 && /opt/ghapp/bin/pip install --no-deps --only-binary :all: --require-hashes --requirement image.txt
RUN /opt/ghapp/bin/pip install --no-deps --no-index --no-build-isolation . \
 && /opt/ghapp/bin/pip uninstall --yes pip setuptools

FROM python:${PYTHON}
ARG VERSION=0.2.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="ghapp" \
      org.opencontainers.image.description="Watches the registrations of self-hosted GitHub Actions runners, and has the lost ones replaced." \
      org.opencontainers.image.source="https://github.com/ghapp/ghapp" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# A user with a name and no home; everything else is root's. Run it with a read-only root: `--read-only --tmpfs /tmp`.
RUN groupadd --gid 10001 ghapp \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin ghapp
COPY --from=build /opt/ghapp /opt/ghapp
ENV PATH=/opt/ghapp/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# By number: Kubernetes cannot know of a name that it is not root.
USER 10001:10001
EXPOSE 8000
# Each role has its own; manifests/ has them.
HEALTHCHECK NONE
ENTRYPOINT ["ghapp"]
CMD ["--help"]
