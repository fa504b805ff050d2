# Images of Ingot: the program, and the program with NVIDIA's kernel compiler.
#
#   docker build -t ingot --build-arg VERSION=$(git describe --tags --always) .
#   docker build -t ingot:cuda --target cuda .     # linux/amd64
#   docker run --rm -v "$PWD:/data" -w /data ingot run prompts.jsonl -o answers.jsonl --model model.gguf
#
# A release takes the programs that it has built: PROGRAM=released.
ARG PROGRAM=built

FROM golang:1.26 AS built
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=${VERSION}" -o /ingot ./cmd/ingot

FROM scratch AS released
ARG TARGETPLATFORM
COPY ${TARGETPLATFORM}/ingot /ingot

FROM ${PROGRAM} AS program

# Debian and not an empty image: the GPU backends load the system's libraries at run time, which takes glibc.
FROM debian:12-slim AS base
RUN apt-get update \
 && apt-get install -y --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --create-home --shell /usr/sbin/nologin ingot \
 && install -d -o ingot -g ingot /home/ingot/.cache
COPY --from=program /ingot /usr/local/bin/ingot
COPY models/*.gguf /models/
USER 10001
# Models that were downloaded and kernels that were compiled.
VOLUME /home/ingot/.cache
ENTRYPOINT ["ingot"]
CMD ["--help"]

# NVIDIA's driver is mounted by its container toolkit. NVRTC 12 works with drivers for CUDA 12 and 13.
FROM nvidia/cuda:12.8.1-base-ubuntu24.04 AS nvrtc
RUN apt-get update \
 && apt-get install -y --no-install-recommends cuda-nvrtc-12-8 \
 && rm -rf /var/lib/apt/lists/* \
 && mkdir /nvrtc \
 && cp -P /usr/local/cuda-12.8/targets/x86_64-linux/lib/libnvrtc.so.12* \
          /usr/local/cuda-12.8/targets/x86_64-linux/lib/libnvrtc-builtins.so.12* /nvrtc/

FROM base AS cuda
COPY --from=nvrtc /nvrtc/ /usr/lib/x86_64-linux-gnu/
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

FROM base AS ingot
