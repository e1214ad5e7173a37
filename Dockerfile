# syntax=docker/dockerfile:1
# One static binary in an image that holds nothing else. For linux/amd64 and linux/arm64, each built on its own platform:
#   docker build -t baton:0.1.0 .
# Tags move: pin both images to a digest where you build (--build-arg RUST_IMAGE=rust@sha256:…), as
# .github/workflows/image.yml does. There is no HEALTHCHECK: Kubernetes asks /livez, and ignores what an image says.
ARG RUST_IMAGE=rust:1-alpine
ARG RUNTIME_IMAGE=gcr.io/distroless/static-debian12:nonroot

FROM ${RUST_IMAGE} AS tools
# Alpine's own target is musl, linked statically. ring has some C and assembly in it.
RUN apk add --no-cache gcc musl-dev
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
# It needs no file of this image: it starts in an empty folder.
RUN mkdir /empty && cp target/release/baton /empty && chroot /empty /baton --version

# docker build --target symbols --output symbols .
FROM scratch AS symbols
COPY --from=build /baton.debug /baton.debug

FROM ${RUNTIME_IMAGE}
COPY --from=build /src/target/release/baton /baton
COPY --from=build /src/LICENSE /LICENSE
# Numeric, so that Kubernetes can verify runAsNonRoot.
USER 65532:65532
EXPOSE 4041
ENTRYPOINT ["/baton"]
CMD ["run", "--config", "/etc/baton/config.yaml"]
