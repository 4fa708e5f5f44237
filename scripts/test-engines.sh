#!/usr/bin/env bash
# Runs coding agents of other projects on a runner of target/debug/openvibe (or OPENVIBE_BIN): in its sandbox, without a key, with a
# scripted model. Installs them into OPENVIBE_TEST_ENGINES
# (/var/tmp/openvibe-engines: the sandbox has the copy in /work) if their versions have changed. Arguments are names of engines; without any,
# all are run. This downloads about 500 MB, so it is part of the nightly tests only.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

list=tests/clients/engines/package.json
engines=${OPENVIBE_TEST_ENGINES:-/var/tmp/openvibe-engines}
if ! cmp -s $list "$engines/node_modules/.openvibe-package.json"; then
  say "Installing the agents in $list into $engines"
  mkdir -p "$engines"
  cp $list "$engines"
  # With their own Node, because some need a newer one than OpenVibe. Of their install scripts, one is needed; others compile modules.
  (cd "$engines" && npm install --no-package-lock --ignore-scripts --no-audit --no-fund --prefer-offline --loglevel=error &&
    cd node_modules/opencode-ai && node postinstall.mjs) ||
    die "could not install the agents in $list."
  cp $list "$engines/node_modules/.openvibe-package.json"
fi
node tests/clients/engines/run.mjs "$engines/node_modules" "$@"
