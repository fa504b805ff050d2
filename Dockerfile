# The worker with the bundled model. Build: docker build --build-arg VERSION=$(git describe --tags --always) -t ingot .
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-X main.version=${VERSION}" -o /ingot ./cmd/ingot

# Debian and not an empty image: the GPU backends load the system's libraries at run time, which takes glibc.
FROM debian:12-slim
RUN useradd --system --no-create-home --shell /usr/sbin/nologin ingot
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /ingot /usr/local/bin/ingot
COPY models/*.gguf /models/
ENV INGOT_MODEL=/models/tiny-glm.q8_0.gguf
USER ingot
ENTRYPOINT ["ingot"]
CMD ["worker"]
