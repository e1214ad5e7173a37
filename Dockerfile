# syntax=docker/dockerfile:1
# Baton, linked to the C library of Debian 12: what is tested and measured is what ships. For linux/amd64 and linux/arm64,
# each built on its own platform:
#   docker build -t baton:0.1.0 .                           the program, and nothing that could run beside it
#   docker build --target shell -t baton:0.1.0-shell .      the same on Debian, with a shell, for the programs of jobs
#   docker build --target symbols --output symbols .        lines for backtraces and core dumps
# Tags move: pin the images to a digest where you build (--build-arg RUST_IMAGE=rust@sha256:…), as
# .github/workflows/image.yml does. There is no HEALTHCHECK: Kubernetes asks /livez, and ignores what an image says.
# `make image` (.ci/image) reads the last stage, and makes an archive of it without docker.
ARG RUST_IMAGE=rust:1-bookworm
ARG RUNTIME_IMAGE=gcr.io/distroless/cc-debian12:nonroot
ARG SHELL_IMAGE=debian:12-slim

FROM ${RUST_IMAGE} AS tools
RUN apt-get update && apt-get install -y --no-install-recommends python3 && rm -rf /var/lib/apt/lists/*
RUN cargo install --locked cargo-chef@0.1.78 cargo-auditable@0.7.7
WORKDIR /src

# What the dependencies are, without the source: this layer changes only when they do.
FROM tools AS plan
COPY . .
RUN cargo chef prepare --recipe-path /recipe.json

FROM tools AS build
COPY --from=plan /recipe.json /recipe.json
# Lines for the symbol file; they leave the program below.
ENV CARGO_PROFILE_RELEASE_DEBUG=line-tables-only CARGO_PROFILE_RELEASE_STRIP=none
RUN cargo chef cook --release --locked --bin baton --recipe-path /recipe.json
COPY . .
# With the list of its dependencies inside, for scanners: `cargo audit bin baton`.
RUN cargo auditable build --release --locked --bin baton
# The names of functions stay in the program, for backtraces and profilers; lines are in the symbol file.
RUN objcopy --only-keep-debug target/release/baton /baton.debug \
    && objcopy --strip-debug --add-gnu-debuglink=/baton.debug target/release/baton
RUN .ci/licences >/THIRD-PARTY-LICENSES

FROM scratch AS symbols
COPY --from=build /baton.debug /baton.debug

FROM ${SHELL_IMAGE} AS shell
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates tzdata && rm -rf /var/lib/apt/lists/* \
    && groupadd --gid 65532 nonroot && useradd --uid 65532 --gid 65532 --create-home nonroot \
    && ln -s /baton /usr/local/bin/baton
COPY --from=build /src/target/release/baton /baton
COPY --from=build /src/LICENSE /THIRD-PARTY-LICENSES /usr/share/doc/baton/
USER 65532:65532
EXPOSE 4041
ENTRYPOINT ["/baton"]
CMD ["run", "--config", "/etc/baton/config.yaml"]
ARG VERSION=0.1.0
ARG REVISION
ARG SOURCE
LABEL org.opencontainers.image.title="Baton" \
    org.opencontainers.image.description="Leader election and job coordination beside every replica" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.source="${SOURCE}"

FROM ${RUNTIME_IMAGE}
COPY --from=build /src/target/release/baton /baton
COPY --from=build /src/LICENSE /THIRD-PARTY-LICENSES /usr/share/doc/baton/
# Numeric, so that Kubernetes can verify runAsNonRoot.
USER 65532:65532
EXPOSE 4041
ENTRYPOINT ["/baton"]
CMD ["run", "--config", "/etc/baton/config.yaml"]
ARG VERSION=0.1.0
ARG REVISION
ARG SOURCE
LABEL org.opencontainers.image.title="Baton" \
    org.opencontainers.image.description="Leader election and job coordination beside every replica" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" \
    org.opencontainers.image.source="${SOURCE}"
