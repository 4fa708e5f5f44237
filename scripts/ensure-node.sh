#!/usr/bin/env bash
# Ensures that Node and npm are available and recent enough to build the web client. If those of the
# system are not, installs them into .tools (not committed), from registry packages only: any npm,
# such as Debian's, can fetch a newer Node as a package. Prints nothing if nothing is missing.
# build.rs and the Makefile check .tools/bin first.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

NODE_VERSION=22.23.3 # newest 22.x at the time of writing
NPM_VERSION=11.21.2

# Requirement of Vite 8.
fits() {
  command -v node >/dev/null && command -v npm >/dev/null && node -e '
    const [major, minor] = process.versions.node.split(".").map(Number);
    process.exit((major === 20 && minor >= 19) || (major === 22 && minor >= 12) || major > 22 ? 0 : 1);'
}

PATH="$PWD/.tools/bin:$PATH"
if fits; then exit 0; fi

case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) platform=linux-x64 ;;
  Linux-aarch64) platform=linux-arm64 ;;
  Darwin-arm64) platform=darwin-arm64 ;;
  *) die "there is no Node package for $(uname -sm). Install Node 20.19, or 22.12 or newer, with npm, and try again." ;;
esac

say "no suitable Node (20.19, or 22.12 or newer) is installed: downloading Node $NODE_VERSION into .tools"
command -v npm >/dev/null ||
  install_packages npm ||
  die "npm is missing and could not be installed. Install Node 20.19, or 22.12 or newer, with npm, and try again."
mkdir -p .tools
npm install --prefix .tools --no-save --no-audit --no-fund --loglevel=error \
  "node-$platform@$NODE_VERSION" "npm@$NPM_VERSION"
ln -sfn node_modules/.bin .tools/bin
hash -r
fits || die "the Node installed in .tools does not run: $(.tools/bin/node --version 2>&1 || true)"
say "Node $(node --version), npm $(npm --version)"
