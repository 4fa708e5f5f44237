#!/usr/bin/env bash
# Runs the official OpenAI libraries for Python and Node, async-openai for Rust, slack_sdk, pyotp, fido2, Canaille, and the checks of scim2-tester
# for Python, and oidc-provider for Node against target/debug/openvibe (or OPENVIBE_BIN), with a scripted model server. Installs those for Python
# and Node in the versions from tests/clients if those have changed; for Python, into target/clients.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

clients=tests/clients
venv=target/clients/python
stamp() { cmp -s "$1" "$2"; }

if ! stamp $clients/requirements.txt $venv/requirements.txt; then
  rm -rf $venv
  python3 -m venv $venv ||
    die "Python could not create a virtual environment. Install the packages python3 and python3-venv."
  $venv/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r $clients/requirements.txt ||
    die "could not install the Python packages in $clients/requirements.txt."
  cp $clients/requirements.txt $venv/requirements.txt
fi
if ! stamp $clients/package-lock.json $clients/node_modules/.openvibe-lockfile; then
  (cd $clients && npm ci --no-audit --no-fund --prefer-offline --loglevel=error) ||
    die "could not install the Node packages in $clients/package-lock.json."
  cp $clients/package-lock.json $clients/node_modules/.openvibe-lockfile
fi
cargo build --quiet --package openvibe-test-clients
node $clients/run.mjs "$PWD/$venv/bin/python" "${CARGO_TARGET_DIR:-$PWD/target}/debug/openvibe-test-client"
