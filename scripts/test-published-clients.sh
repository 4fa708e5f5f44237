#!/usr/bin/env bash
# Runs unmodified clients of other projects (coding agents, SDKs, MCP SDKs of several years) against target/debug/openvibe (or
# OPENVIBE_BIN) with a scripted model. Installs each Python client into an environment of its own in target/published-clients, and
# the Node clients into tests/clients/published, if their versions have changed. Arguments are parts of client names; without any,
# all are run. This downloads about 1 GB, so it is part of the nightly tests only.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

clients=tests/clients/published
environments=target/published-clients
mkdir -p $environments
while read -r name packages; do
  case $name in '#'* | '') continue ;; esac
  environment=$environments/$name
  [ "$(cat "$environment/packages" 2>/dev/null)" = "$packages" ] && continue
  say "Installing $packages"
  rm -rf "$environment"
  python3 -m venv "$environment" ||
    die "Python could not create a virtual environment. Install the packages python3 and python3-venv."
  # shellcheck disable=SC2086 # a list
  "$environment/bin/pip" install --quiet --disable-pip-version-check $packages || die "could not install $packages."
  printf '%s\n' "$packages" >"$environment/packages"
done <$clients/environments.txt
if ! cmp -s $clients/package.json $clients/node_modules/.openvibe-package.json; then
  (cd $clients && npm install --no-package-lock --no-audit --no-fund --prefer-offline --loglevel=error) ||
    die "could not install the Node packages in $clients/package.json."
  cp $clients/package.json $clients/node_modules/.openvibe-package.json
fi
node $clients/run.mjs "$PWD/$environments" "$@"
[ $# -gt 0 ] || node $clients/servers.mjs "$PWD/$environments"
