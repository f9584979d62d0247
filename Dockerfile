# Serves a run that is mounted at /run-folder, as a user without rights, at port 8000:
#
#     docker build -t spml-serve .
#     docker run --rm -p 127.0.0.1:8000:8000 --read-only --tmpfs /tmp -v "$PWD/runs/photos:/run-folder:ro" spml-serve
#
# Options of `spml serve` follow: docker run ... spml-serve --workers 2
FROM python:3.12-slim

ENV PIP_NO_CACHE_DIR=1 PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 OMP_NUM_THREADS=1

WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
# Without a GPU, pass the index with PyTorch's builds for CPU, which are much smaller: --build-arg TORCH_INDEX=...
ARG TORCH_INDEX
RUN pip install ${TORCH_INDEX:+--index-url "$TORCH_INDEX"} torch torchvision \
    && pip install '.[serve]' \
    && rm -rf /source \
    && useradd --system --uid 10001 --no-create-home --home-dir /tmp spml

WORKDIR /tmp
USER 10001
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=4)"]
# SIGTERM, which `docker stop` sends, finishes what was taken; --stop-timeout of docker must exceed
# --shutdown_timeout.
ENTRYPOINT ["spml", "serve", "/run-folder", "--host", "0.0.0.0", "--port", "8000", "--shutdown_timeout", "8"]
