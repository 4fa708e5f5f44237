#!/usr/bin/env bash
# Fuzzes target/debug/openvibe (or OPENVIBE_BIN) from its own API document with schemathesis: with a key, with a session, and
# anonymously. SEED, CASES, and ONLY control a run (tests/fuzz/run.py). Installs schemathesis in the version from tests/fuzz, if
# that has changed, into target/fuzz.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

venv=target/fuzz/python
if ! cmp -s tests/fuzz/requirements.txt $venv/requirements.txt; then
  rm -rf $venv
  python3 -m venv $venv ||
    die "Python could not create a virtual environment. Install the packages python3 and python3-venv."
  $venv/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r tests/fuzz/requirements.txt ||
    die "could not install the Python packages in tests/fuzz/requirements.txt."
  cp tests/fuzz/requirements.txt $venv/requirements.txt
fi
exec $venv/bin/python tests/fuzz/run.py "$@"
