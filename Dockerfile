# titjudge for hosted models, replays, statistics and small local models, on a CPU. docs/how-to/scale-out.md says how to run it.
#   docker build -t titjudge .
FROM python:3.11-slim-bookworm

ARG EXTRAS="ocr,pandas,parquet"
# The index of PyTorch's builds without CUDA, which are several gigabytes smaller.
ARG TORCH_INDEX="https://download.pytorch.org/whl/cpu"
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

# The versions that are tested, those of the tools that build titjudge too.
RUN --mount=type=bind,target=/src,rw \
    PIP_BUILD_CONSTRAINT=/src/constraints.txt \
    pip install -c /src/constraints.txt --extra-index-url "$TORCH_INDEX" "/src[$EXTRAS]"

# Any user id can use the caches: `--user "$(id -u)"` lets what a run writes belong to whoever started it.
RUN useradd --uid 1000 titjudge && install -d -m 1777 /cache /data
ENV HOME=/cache USER=titjudge XDG_CACHE_HOME=/cache TITJUDGE_CACHE=/cache/titjudge HF_HOME=/cache/huggingface
VOLUME /cache
WORKDIR /data
USER 1000
ENTRYPOINT ["titjudge"]
CMD ["--help"]
