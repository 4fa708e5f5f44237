#!/usr/bin/env bash
# Runs a command with a temporary PostgreSQL server, and exits with the status of the command:
#
#   scripts/with-postgres.sh cargo test
#
# OPENVIBE_TEST_POSTGRES_URL has the URL of the server, for a role that can create databases. If it is
# already set, no server is started. The server is empty, only listens on a socket in a private
# directory, and is deleted after the command.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] || die "usage: $0 COMMAND [ARGUMENT ...]"
[ -z "${OPENVIBE_TEST_POSTGRES_URL:-}" ] || exec "$@"

bin=$(postgres_bin)
[ -n "$bin" ] || die "no PostgreSQL server programs: run scripts/ensure-test-tools.sh"

# A database is a thousand files: a suite that creates one for each test takes much longer on a disk than in memory.
parent=${TMPDIR:-/tmp}
[ -n "${OPENVIBE_POSTGRES_DURABLE:-}" ] || [ ! -w /dev/shm ] || parent=/dev/shm
dir=$(mktemp -d "$parent/openvibe-postgres.XXXXXX")
server=
cleanup() {
  trap '' INT TERM HUP
  # QUIT stops the server immediately: its data is not needed.
  [ -z "$server" ] || { kill -QUIT "$server" 2>/dev/null && wait "$server" || true; }
  rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# PostgreSQL does not run as root.
unprivileged=()
if [ "$(id -u)" = 0 ]; then
  user=$(id -un postgres 2>/dev/null || echo nobody)
  chown "$user" "$dir"
  unprivileged=(setpriv --reuid "$user" --regid "$(id -gn "$user")" --clear-groups)
fi

cd "$dir" # the user of the server may not have access to the current directory
"${unprivileged[@]}" "$bin/initdb" -D "$dir/data" -U openvibe -A trust -E UTF8 --locale C.UTF-8 --no-sync >"$dir/initdb.log" 2>&1 ||
  die "initdb failed: $(cat "$dir/initdb.log")"
# Tests do not simulate power failures, so fsync is off; benchmarks use the settings of a real server. The server stops when
# this script is killed.
durability=(-c fsync=off -c synchronous_commit=off -c full_page_writes=off -c wal_level=minimal -c max_wal_senders=0)
[ -z "${OPENVIBE_POSTGRES_DURABLE:-}" ] || durability=()
"${unprivileged[@]}" setpriv --pdeathsig QUIT "$bin/postgres" -D "$dir/data" \
  -c listen_addresses= -c unix_socket_directories="$dir" -c max_connections=300 \
  "${durability[@]}" \
  >"$dir/server.log" 2>&1 &
server=$!
cd "$OLDPWD"

for _ in $(seq 300); do
  if "$bin/pg_isready" -q -h "$dir" -U openvibe; then ready=yes; break; fi
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
[ "${ready:-}" ] || die "PostgreSQL did not start: $(cat "$dir/server.log")"

status=0
OPENVIBE_TEST_POSTGRES_URL="postgres://openvibe@localhost/postgres?host=$dir" "$@" || status=$?
exit "$status"
