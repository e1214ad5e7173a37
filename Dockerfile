# syntax=docker/dockerfile:1
# One static binary in an image that holds nothing else. For linux/amd64 and linux/arm64, each built on its own platform:
#   docker build -t baton:0.1.0 .
# Tags move: pin both images to a digest where you build (--build-arg RUST_IMAGE=rust@sha256:…).
ARG RUST_IMAGE=rust:1-alpine
ARG RUNTIME_IMAGE=gcr.io/distroless/static-debian12:nonroot

FROM ${RUST_IMAGE} AS build
# Alpine's own target is musl, linked statically. ring has some C and assembly in it.
RUN apk add --no-cache gcc musl-dev
WORKDIR /src
COPY . .
# The caches keep crates and compiled dependencies between builds; the binary is copied out, for they are not in the image.
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --bin baton && cp target/release/baton /baton

FROM ${RUNTIME_IMAGE}
COPY --from=build /baton /baton
COPY --from=build /src/LICENSE /LICENSE
# Numeric, so that Kubernetes can verify runAsNonRoot.
USER 65532:65532
EXPOSE 4041
ENTRYPOINT ["/baton"]
CMD ["run", "--config", "/etc/baton/config.yaml"]
