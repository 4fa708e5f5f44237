#!/usr/bin/env bash
# Makes targets one after another, until one fails, and prints how long each of them took. Arguments are targets with the minutes that
# they should take on two cores; a target that takes half as long again is named in the first line of the table, and fails nothing.
#
# Unless all tests run on PostgreSQL, this is a run for a change: OPENVIBE_TEST_SAMPLE is the commit, which chooses a third of the tests of
# crashes, the order of 14 minutes of API tests (scripts/cargo-test.sh), a third of those on PostgreSQL (scripts/select-tests.py), and six
# minutes of browser tests (web/e2e/lib/run.mjs). Set it to nothing to run all of them. Shortly before OPENVIBE_TEST_UNTIL, in seconds since
# 1970, API tests and browser tests no longer begin; by default, an hour from now.
#
#   scripts/parts.sh compile:6 test-sqlite:5
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

case " $*" in
  *" test-postgres:"*) ;;
  *)
    export OPENVIBE_TEST_SAMPLE=${OPENVIBE_TEST_SAMPLE-$(git rev-parse HEAD 2>/dev/null || true)}
    export OPENVIBE_TEST_UNTIL=${OPENVIBE_TEST_UNTIL:-$(($(date +%s) + 60 * 60))}
    ;;
esac

table=
slow=
sum=0
status=0
for part in "$@"; do
  target=${part%:*}
  figure=${part#*:}
  started=$SECONDS
  "${MAKE:-make}" --no-print-directory "$target" || status=$?
  took=$((SECONDS - started))
  sum=$((sum + took))
  table+=$(printf '%-20s %3d:%02d  %6s min' "$target" $((took / 60)) $((took % 60)) "$figure")$'\n'
  [ "$took" -le $((figure * 90)) ] || slow+=" $target"
  [ "$status" = 0 ] || break
done
{
  [ -z "$slow" ] || printf 'SLOW: took more than half as long again as it should:%s\n' "$slow"
  printf '%-20s %6s  %10s\n' part time "two cores"
  printf '%s' "$table"
  printf '%-20s %3d:%02d\n' sum $((sum / 60)) $((sum % 60))
} >&2
exit "$status"
