#!/usr/bin/env bash
# Runs a command beside a PostgreSQL server of its own and ends with the command's status:
#
#   scripts/with-postgres.sh cargo test
#
# The command finds the server's URL, with the right to create databases, in
# OPENVIBE_TEST_POSTGRES_URL. When that is already set, it is used and no server is started.
# The server is empty, listens on a socket in a private directory only, and is gone with the command.
set -euo pipefail
. "$(dirname "$0")/lib.sh"

[ $# -gt 0 ] || die "usage: $0 COMMAND [ARGUMENT ...]"
[ -z "${OPENVIBE_TEST_POSTGRES_URL:-}" ] || exec "$@"

bin=$(postgres_bin)
[ -n "$bin" ] || die "no PostgreSQL server programs: run scripts/ensure-test-tools.sh"

dir=$(mktemp -d "${TMPDIR:-/tmp}/openvibe-postgres.XXXXXX")
server=
cleanup() {
  trap '' INT TERM HUP
  # QUIT ends the server at once: nobody needs its data.
  [ -z "$server" ] || { kill -QUIT "$server" 2>/dev/null && wait "$server" || true; }
  rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# PostgreSQL refuses to run as root.
unprivileged=()
if [ "$(id -u)" = 0 ]; then
  user=$(id -un postgres 2>/dev/null || echo nobody)
  chown "$user" "$dir"
  unprivileged=(setpriv --reuid "$user" --regid "$(id -gn "$user")" --clear-groups)
fi

cd "$dir" # the server's user may have no right to be where we are
"${unprivileged[@]}" "$bin/initdb" -D "$dir/data" -U openvibe -A trust -E UTF8 --locale C.UTF-8 --no-sync >"$dir/initdb.log" 2>&1 ||
  die "initdb failed: $(cat "$dir/initdb.log")"
# No test pulls the plug, so nothing has to reach the disk; benchmarks want what a real server does. The server ends when this script is killed.
durability=(-c fsync=off -c synchronous_commit=off -c full_page_writes=off)
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
