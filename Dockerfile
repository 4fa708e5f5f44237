# syntax=docker/dockerfile:1
# Stages: 1. the web client; 2. the program with the embedded client; 3. the runtime image.

FROM node:22-bookworm-slim AS client
WORKDIR /src/web
COPY web/package.json web/package-lock.json web/.npmrc ./
RUN npm ci --include=dev --no-audit --no-fund
COPY scripts/precompress.mjs ../scripts/
COPY web ./
RUN npm run build && node ../scripts/precompress.mjs dist

FROM rust:1.95-slim-bookworm AS server
WORKDIR /src
# Does not copy rust-toolchain.toml: the image has the toolchain, but not the components that only checks need.
COPY .cargo .cargo
COPY Cargo.toml Cargo.lock build.rs ./
# Only the manifest, because this package is part of the workspace, but not of the server.
COPY tests/clients/Cargo.toml tests/clients/
COPY crates crates
COPY migrations migrations
COPY seeds seeds
COPY src src
COPY web/src/lib/emoji.txt web/src/lib/
COPY LICENSE ./
COPY deploy/openvibe.service deploy/
COPY deploy/release/release.pub deploy/release/
COPY --from=client /src/web/dist /client
ENV OPENVIBE_WEB_DIST=/client
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked && cp target/release/openvibe /openvibe

FROM debian:bookworm-slim
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install -y --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --user-group --no-create-home openvibe \
    && install -d -o openvibe -g openvibe /data
LABEL org.opencontainers.image.title="OpenVibe" org.opencontainers.image.licenses="MIT"
COPY --from=server /openvibe /usr/local/bin/openvibe
USER 10001
ENV OPENVIBE_LISTEN=0.0.0.0:8080 OPENVIBE_DATA_DIR=/data
VOLUME /data
EXPOSE 8080
HEALTHCHECK --start-period=10s CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/8080 && printf 'GET /healthz HTTP/1.0\\r\\nHost: localhost\\r\\n\\r\\n' >&3 && read -r _ status _ <&3 && [ \"$status\" = 200 ]"]
ENTRYPOINT ["openvibe"]
CMD ["serve"]
