#!/usr/bin/env bash
# Makes target/release-VERSION/ from a clean tree: static programs for two architectures, Debian packages, an OCI image, a bill of
# materials, install.sh, checksums, and their signature. Two runs of a commit give the same bytes.
#
#   RELEASE_KEY=~/.ssh/openvibe-release make release
#
# RELEASE_KEY    private Ed25519 key of ssh-keygen, whose public key is in deploy/release/release.pub; without it, nothing is signed
# RELEASE_URL    address at which the files will be, for install.sh and for `openvibe update`
# MIN_FROM       oldest version that can be updated to this one; the first version by default
# SECURITY=1     marks a security update
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

NAMESPACE=openvibe-release
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
root=$PWD
out=$root/target/release-$version
tools=$root/target/release-tools
url=${RELEASE_URL:-}
min_from=${MIN_FROM:-0.1.0}

[ -z "$(git status --porcelain)" ] || die "the tree has changes that are not committed: a release is made from a commit."
notes=$(awk -v heading="## $version" 'index($0, "## ") == 1 { is_ours = index($0 " ", heading " ") == 1; next } is_ours' CHANGELOG.md)
[ -n "${notes//[[:space:]]/}" ] || die "CHANGELOG.md has no section \"## $version\"."
key=${RELEASE_KEY:-}
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
  if ! cmp -s deploy/release/requirements.txt "$tools/requirements.txt"; then
    rm -rf "$tools/python"
    python3 -m venv "$tools/python"
    "$tools/python/bin/pip" install --quiet --disable-pip-version-check --only-binary :all: -r deploy/release/requirements.txt
    cp deploy/release/requirements.txt "$tools/requirements.txt"
  fi
  rustup target add --quiet x86_64-unknown-linux-musl aarch64-unknown-linux-musl
  cargo install --quiet --locked --root "$tools" --version 0.5.9 cargo-cyclonedx
}

# The client is the same in all programs.
build_client() {
  rm -rf "$tools/client"
  (cd web && npm ci --include=dev --no-audit --no-fund --prefer-offline && npx vite build --logLevel warn --emptyOutDir --outDir "$tools/client")
  node scripts/precompress.mjs "$tools/client"
}

# Paths of this machine must not be part of the programs.
build_program() {
  local remap="--remap-path-prefix=$root=/openvibe --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=/cargo --remap-path-prefix=$tools/client=/client"
  PATH="$tools/python/bin:$PATH" CARGO_ZIGBUILD_ZIG_PATH="$tools/python/bin/python-zig" \
    OPENVIBE_WEB_DIST="$tools/client" OPENVIBE_RELEASES="$url" CARGO_INCREMENTAL=0 RUSTFLAGS="$remap" \
    cargo zigbuild --config deploy/release/profile.toml --profile dist --locked --package openvibe --bin openvibe \
    --target "$1-unknown-linux-musl" --target-dir "$root/target/dist"
  install -m 755 "target/dist/$1-unknown-linux-musl/dist/openvibe" "$out/openvibe-$version-linux-$1"
}

# Usage: build_package ARCHITECTURE DEBIAN_ARCHITECTURE
build_package() {
  local tree
  tree=$(mktemp -d)
  install -D -m 755 "$out/openvibe-$version-linux-$1" "$tree/usr/bin/openvibe"
  install -D -m 644 LICENSE "$tree/usr/share/doc/openvibe/copyright"
  install -d "$tree/DEBIAN"
  install -m 755 deploy/release/{postinst,prerm,postrm} "$tree/DEBIAN/"
  cat >"$tree/DEBIAN/control" <<EOF
Package: openvibe
Version: $version
Architecture: $2
Maintainer: OpenVibe maintainers <openvibe@localhost>
Installed-Size: $(du -sk "$tree/usr" | cut -f 1)
Section: net
Priority: optional
Description: team chat in which AI agents are teammates
 A self-hosted, real-time team chat server with a web client. The program is static and needs no other package.
EOF
  find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
  dpkg-deb --root-owner-group -Zxz --build "$tree" "$out/openvibe_${version}_$2.deb" >/dev/null
  rm -rf "$tree"
}

write_latest() {
  python3 - "$version" "$date" "${SECURITY:-}" "$notes" "$min_from" >"$out/latest.json" <<'EOF'
import json, os, sys
version, date, security, notes, min_from = sys.argv[1:]
files = [f"openvibe-{version}-linux-{arch}" for arch in ("x86_64", "aarch64")]
files += [f"openvibe_{version}_{arch}.deb" for arch in ("amd64", "arm64")] + [f"openvibe-{version}-image.tar"]
print(json.dumps({"version": version, "date": date, "security": bool(security), "notes": notes.strip(), "min_from": min_from, "files": files}, indent=2))
EOF
}

write_bill() {
  cargo-cyclonedx() { "$tools/bin/cargo-cyclonedx" "$@"; }
  cargo-cyclonedx cyclonedx --format json --spec-version 1.5 --override-filename openvibe --quiet
  (cd web && npm sbom --omit dev --sbom-format cyclonedx >"$tools/web.cdx.json")
  python3 deploy/release/bill.py openvibe.cdx.json "$tools/web.cdx.json" "$version" "$SOURCE_DATE_EPOCH" >"$out/openvibe-$version.cdx.json"
  find . -name openvibe.cdx.json -not -path './target/*' -delete
}

write_installer() {
  python3 - deploy/release/install.sh deploy/release/release.pub "$url" >"$out/install.sh" <<'EOF'
import sys
script, keys, url = open(sys.argv[1]).read(), open(sys.argv[2]).read(), sys.argv[3]
lines = [line for line in keys.splitlines() if line.startswith("ssh-")]
signers = "\n".join('release namespaces="openvibe-release" ' + line for line in lines)
print(script.replace("@SIGNERS@", signers).replace("@URL@", url), end="")
EOF
  chmod 755 "$out/install.sh"
}

install_tools
rm -rf "$out"
mkdir -p "$out"
build_client
for architecture in x86_64 aarch64; do build_program $architecture; done
build_package x86_64 amd64
build_package aarch64 arm64
python3 deploy/release/image.py "$version" "$SOURCE_DATE_EPOCH" "$out"
write_bill
write_latest
write_installer
(cd "$out" && find . -type f -printf '%P\n' | sort | xargs sha256sum >../SHA256SUMS && mv ../SHA256SUMS .)
if [ -n "$key" ]; then
  ssh-keygen -q -Y sign -f "$key" -n $NAMESPACE "$out/SHA256SUMS"
else
  say "Not signed: RELEASE_KEY is not set, so install.sh and \`openvibe update\` will refuse these files."
fi
say "$out:"
(cd "$out" && ls -l | awk 'NR > 1 { printf "%12d  %s\n", $5, $9 }')
