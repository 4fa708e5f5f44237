#!/usr/bin/env bash
# Makes a release twice, from nothing but downloads, and tests it: both have the same bytes, and all parts are complete. Without Rust's
# targets for musl, only the program of this machine's architecture is made. Takes twice as long as an optimized build.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
out=target/release-$version
first=target/release-first
rm -rf "$first"
make_release() {
  rm -rf target/dist
  env -u RELEASE_KEY TRIAL=1 RELEASE_URL=https://releases.example.org scripts/release.sh
}
make_release
python3 tests/deploy/release.py "$out"
mv "$out" "$first"
make_release
diff -r "$first" "$out" || die "two runs of the same commit differ."
rm -rf "$first"
say "Two runs gave the same bytes."
