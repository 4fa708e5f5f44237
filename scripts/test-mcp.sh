#!/usr/bin/env bash
# Runs the conformance suite of the Model Context Protocol against both sides of target/debug/openvibe (or OPENVIBE_BIN), and its
# client against the reference server. Installs both in the versions from tests/mcp if these have changed. The suite needs Node 22:
# if the installed one is older, another is installed into target/mcp. Arguments are test files; without any, all are run.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

NODE_VERSION=22.23.3 # as in ensure-node.sh
suite=tests/mcp
if ! cmp -s $suite/package-lock.json $suite/node_modules/.openvibe-lockfile; then
  (cd $suite && npm ci --no-audit --no-fund --prefer-offline --loglevel=error) ||
    die "could not install the Node packages in $suite/package-lock.json."
  cp $suite/package-lock.json $suite/node_modules/.openvibe-lockfile
fi
node=node
if [ "$(node -p 'process.versions.node.split(".")[0]')" -lt 22 ]; then
  platform=$(node -p '`${process.platform}-${process.arch}`')
  node=target/mcp/node_modules/node-$platform/bin/node
  [ -x "$node" ] ||
    npm install --prefix target/mcp --no-save --no-audit --no-fund --loglevel=error "node-$platform@$NODE_VERSION" ||
    die "Node $NODE_VERSION could not be installed. Install Node 22 or newer, and try again."
fi
[ $# -gt 0 ] || set -- $suite/*.test.mjs
exec "$node" --test --test-concurrency=2 --test-reporter=spec "$@"
