#!/usr/bin/env bash
# Runs the server and Vite's development server together. Changes of components show up in the browser
# immediately; changes of the server sources rebuild and restart the server. Ctrl-C stops both.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

inputs=(src migrations seeds build.rs Cargo.toml Cargo.lock)
state() { find "${inputs[@]}" -type f -printf '%T@ %p\n' | sort | cksum; }

vite=
server=
stop() { [ -z "$1" ] || { kill "$1" 2>/dev/null && wait "$1" || true; }; }
trap 'stop "$server"; stop "$vite"' EXIT
trap 'exit 130' INT TERM

# Vite serves the client, so this server is built without it.
export OPENVIBE_WEB_DIST=scripts/dev-client
(cd web && exec node node_modules/vite/bin/vite.js --host 127.0.0.1 --port "${OPENVIBE_VITE_PORT:-5173}" --strictPort) &
vite=$!

seen=
while kill -0 "$vite" 2>/dev/null; do
  now=$(state)
  if [ "$now" != "$seen" ]; then
    seen=$now
    if cargo build; then # the old server keeps running during the build, and if it fails
      stop "$server"
      target/debug/openvibe serve &
      server=$!
    fi
  fi
  sleep 1
done
die "Vite exited"
