#!/usr/bin/env bash
# Runs target/debug/openvibe (or OPENVIBE_BIN) against llama-cpp-python with a tiny model that is made here, directly and
# behind LiteLLM. Installs both into target/model-servers in the versions from tests/model_servers; llama-cpp-python has no
# wheels and is compiled once, without what the tests do not need.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

servers=tests/model_servers
venv=target/model-servers/python
model=target/model-servers/tiny.gguf

if ! cmp -s $servers/requirements.txt $venv/requirements.txt; then
  rm -rf $venv
  python3 -m venv $venv ||
    die "Python could not create a virtual environment. Install the packages python3 and python3-venv."
  say "Compiling llama-cpp-python; this takes several minutes"
  CMAKE_ARGS="-DMTMD_BUILD=OFF -DGGML_NATIVE=OFF -DGGML_OPENMP=OFF -DGGML_LLAMAFILE=OFF -DCMAKE_CXX_FLAGS_RELEASE=-O1 -DCMAKE_C_FLAGS_RELEASE=-O1" \
    $venv/bin/pip install --quiet --disable-pip-version-check -r $servers/requirements.txt ||
    die "could not install the Python packages in $servers/requirements.txt. A C++ compiler is required."
  cp $servers/requirements.txt $venv/requirements.txt
fi
$venv/bin/python $servers/tiny_model.py seeds/agents.yaml $model
node $servers/run.mjs "$PWD/$venv/bin/python" "$PWD/$model"
