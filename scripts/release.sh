#!/usr/bin/env bash
# Makes target/release-VERSION/ from a clean tree: static programs for two architectures, Debian packages, an OCI image, a bill of
# materials, the licenses of dependencies, install.sh, checksums, and their signature. Two runs of a commit give the same bytes.
#
#   RELEASE_KEY=~/.ssh/openvibe-release make release
#
# RELEASE_KEY    private Ed25519 key of ssh-keygen, whose public key is in deploy/release/release.pub; without it, nothing is signed
# RELEASE_URL    address at which the files will be, for install.sh and for `openvibe update`
# MIN_FROM       oldest version that can be updated to this one; the first version by default
# SECURITY=1     marks a security update
# TRIAL=1        makes what this machine can: without Rust's targets for musl, only the program of its own architecture, with the static C
#                library of the system. For tests; never signed
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
root=$PWD
out=$root/target/release-$version
tools=$root/target/release-tools
trial=${TRIAL:-}

[ -z "$(git status --porcelain)" ] || die "the tree has changes that are not committed: a release is made from a commit."
notes=$(awk -v heading="## $version" 'index($0, "## ") == 1 { is_ours = index($0 " ", heading " ") == 1; next } is_ours' CHANGELOG.md)
[ -n "${notes//[[:space:]]/}" ] || die "CHANGELOG.md has no section \"## $version\"."
key=${RELEASE_KEY:-}
[ -z "$key" ] || [ -z "$trial" ] || die "a trial is not signed: leave RELEASE_KEY out."
if [ -n "$key" ]; then
  public=$(ssh-keygen -y -f "$key" | cut -d ' ' -f 1,2)
  grep -qF "$public" deploy/release/release.pub || die "the public key of $key is not in deploy/release/release.pub."
fi

# Times in all files.
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
OPENVIBE_COMMIT=$(git rev-parse --short=8 HEAD)
export SOURCE_DATE_EPOCH OPENVIBE_COMMIT TZ=UTC LC_ALL=C
umask 022
date=$(date -u -d "@$SOURCE_DATE_EPOCH" +%F)

install_tools() {
  mkdir -p "$tools"
  if ! cmp -s deploy/release/requirements.txt "$tools/requirements.txt"; then
    rm -rf "$tools/python"
    python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: -r deploy/release/requirements.txt
    cp deploy/release/requirements.txt "$tools/requirements.txt"
  fi
  rustup target add x86_64-unknown-linux-musl aarch64-unknown-linux-musl >"$tools/rustup.log" 2>&1 ||
    [ -n "$trial" ] || die "rustup could not install Rust's targets for musl: $(tail -n 1 "$tools/rustup.log")"
  cargo install --quiet --locked --root "$tools" --version 0.5.9 cargo-cyclonedx
}

has_target() { rustup target list --installed | grep -qx "$1"; }

# The client is the same in all programs.
build_client() {
  rm -rf "$tools/client"
  (cd web && npm ci --include=dev --no-audit --no-fund --prefer-offline && npx vite build --logLevel warn --emptyOutDir --outDir "$tools/client")
  node scripts/precompress.mjs "$tools/client"
}

# The licenses are also part of the programs, compressed. cargo-zigbuild links the C library that comes with Zig.
write_notices() {
  local musl
  musl=$(ls "$tools"/python/lib/python3*/site-packages/ziglang/lib/libc/musl/COPYRIGHT)
  cargo metadata --format-version 1 --locked --filter-platform x86_64-unknown-linux-musl >"$tools/metadata.json"
  python3 deploy/release/notices.py "$tools/metadata.json" web "musl=$musl" >"$out/openvibe-$version-notices.txt"
  gzip -9 --no-name --stdout "$out/openvibe-$version-notices.txt" >"$tools/notices.gz"
}

# Usage: build_program ARCHITECTURE
build_program() {
  local target=$1-unknown-linux-musl build=(zigbuild)
  # Paths of this machine must not be part of the programs.
  local flags="--remap-path-prefix=$root=/openvibe --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$tools/client=/client"
  if ! has_target "$target"; then
    if [ "$1" != "$(uname -m)" ]; then
      say "No program for $1: this machine has no target $target."
      return
    fi
    say "The program for $1 has the C library of this system: there is no target $target."
    target=$1-unknown-linux-gnu build=(build)
    flags+=" -C target-feature=+crt-static"
  fi
  PATH="$tools/python/bin:$PATH" CARGO_ZIGBUILD_ZIG_PATH="$tools/python/bin/python-zig" \
    OPENVIBE_WEB_DIST="$tools/client" OPENVIBE_NOTICES="$tools/notices.gz" OPENVIBE_RELEASES="${RELEASE_URL:-}" CARGO_INCREMENTAL=0 RUSTFLAGS="$flags" \
    cargo "${build[@]}" --config deploy/release/profile.toml --profile dist --locked --package openvibe --bin openvibe \
    --target "$target" --target-dir "$root/target/dist"
  install -m 755 "target/dist/$target/dist/openvibe" "$out/openvibe-$version-linux-$1"
}

remove_bills() { rm -f ./*.cdx.json crates/*/*.cdx.json tests/clients/*.cdx.json; }

# cargo-cyclonedx writes a file beside each Cargo.toml; only that of the program is needed.
write_bill() {
  trap remove_bills EXIT
  "$tools/bin/cargo-cyclonedx" cyclonedx --all --format json --spec-version 1.5 --target x86_64-unknown-linux-musl --quiet
  (cd web && npm sbom --omit dev --sbom-format cyclonedx >"$tools/web.cdx.json")
  python3 deploy/release/bill.py openvibe.cdx.json "$tools/web.cdx.json" "$version" "$SOURCE_DATE_EPOCH" >"$out/openvibe-$version.cdx.json"
  remove_bills
}

install_tools
rm -rf "$out"
mkdir -p "$out"
build_client
write_notices
write_bill
for architecture in x86_64 aarch64; do build_program $architecture; done
VERSION=$version DATE=$date NOTES=$notes CERTIFICATES=$("$tools/python/bin/python" -m certifi) deploy/release/pack.sh "$out"
say "$out:"
(cd "$out" && ls -l | awk 'NR > 1 { printf "%12d  %s\n", $5, $9 }')
