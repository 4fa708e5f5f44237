#!/usr/bin/env bash
# Tests the files for operators: docker-compose.yml, deploy/haproxy.cfg, the Helm chart, the alerts, and the packages of a release.
# Installs Helm and the schemas of Kubernetes in the versions from tests/deploy, if these have changed, into target/deploy. Arguments are
# names of tests.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

venv=target/deploy/python
if ! cmp -s tests/deploy/requirements.txt $venv/requirements.txt; then
  rm -rf $venv
  python3 -m venv $venv ||
    die "Python could not create a virtual environment. Install the packages python3 and python3-venv."
  $venv/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r tests/deploy/requirements.txt ||
    die "could not install the Python packages in tests/deploy/requirements.txt."
  cp tests/deploy/requirements.txt $venv/requirements.txt
fi
$venv/bin/python tests/deploy/run.py "$@"
[ $# -gt 0 ] || exec $venv/bin/python tests/deploy/release.py
