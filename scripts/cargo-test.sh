#!/usr/bin/env bash
# Runs `cargo test` with these arguments. A few failed tests are run again, one after another: the suite passes if they pass
# alone, and their names are the last lines of its output. Thousands of tests with deadlines share the processors of a machine
# that may be busy; a test that fails here is flaky and has to be fixed, but it does not hide the result of the others.
#
# If OPENVIBE_TEST_SAMPLE is set, it chooses a third of the API tests of crashes; the others are left out, unless they are named. It also
# chooses the order of the API tests, which run in groups. Groups that have not begun after SAMPLE_SECONDS, or LATER_SECONDS before
# OPENVIBE_TEST_UNTIL (seconds since 1970), are left out: a slow machine must not use up the time that the whole run has. The first group
# always runs.
#
#   scripts/cargo-test.sh --quiet --test api [-- --exact TEST ...]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

AGAIN_MAX=5
SAMPLE_SECONDS=$((14 * 60))
LATER_SECONDS=$((12 * 60))
# Several minutes each: at the end of a group, some processors are idle.
GROUP=600
NAMED_GROUP=100

SAMPLED='crash|(^|[^s])kills?_|_dies|worker_paused|interrupted'

# Prints the names of the API tests that the sample chooses, in its order.
chosen() {
  SAMPLED=$SAMPLED python3 -c '
import hashlib, os, re, sys
rank = {name: hashlib.sha256((os.environ["OPENVIBE_TEST_SAMPLE"] + name).encode()).digest() for name in sys.stdin.read().split()}
sampled = re.compile(os.environ["SAMPLED"])
print(*sorted((name for name in rank if not sampled.search(name) or rank[name][0] % 3 == 0), key=rank.get), sep="\n")'
}

# Runs `cargo test` with these arguments, and notes a failure.
run() {
  local before
  before=$(failures)
  cargo test --no-fail-fast "$@" 2>&1 | tee -a "$log" || {
    status=$?
    # Without a failed test, something else failed, which a second run of failed tests would not repeat.
    [ "$(failures)" -gt "$before" ] || exit "$status"
  }
}

failures() { grep -c '^test result: FAILED' "$log" || true; }

# Runs these API tests in groups, until there is no time left.
run_groups() {
  local size=$1 until=$((${OPENVIBE_TEST_UNTIL:-$(($(date +%s) + 60 * 60))} - LATER_SECONDS))
  shift
  while [ $# -gt 0 ] && [ "$SECONDS" -lt "$SAMPLE_SECONDS" ] && [ "$(date +%s)" -lt "$until" ]; do
    run --quiet --test api -- --exact "${@:1:size}"
    shift $((size < $# ? size : $#))
  done
  [ $# = 0 ] || say "Left out $# API tests, because of OPENVIBE_TEST_SAMPLE."
}

own=()
named=()
log=$(mktemp)
names=$(mktemp)
trap 'rm -f "$log" "$names"' EXIT
status=0
# Arguments of cargo, and names of tests.
while [ $# -gt 0 ] && [ "$1" != -- ]; do
  own+=("$1")
  shift
done
[ $# = 0 ] || named=("${@:3}")
if [ -z "${OPENVIBE_TEST_SAMPLE:-}" ]; then
  run "${own[@]}" -- --exact "${named[@]}"
elif [ ${#named[@]} -gt 0 ]; then
  run "${own[@]}" -- --exact "${named[@]:0:NAMED_GROUP}"
  run_groups $NAMED_GROUP "${named[@]:NAMED_GROUP}"
else
  cargo test --quiet --test api -- --list | sed -n 's/: test$//p' >"$names"
  order=$(chosen <"$names")
  mapfile -t named <<<"$order"
  # The first group runs together with all programs of tests but the API tests. `--exact`, because a name would otherwise also leave out
  # those that begin with it.
  mapfile -t skips < <(printf '%s\n' "${named[@]:0:GROUP}" | grep -vxFf - "$names" | sed 's/^/--skip=/')
  run "${own[@]}" -- --exact "${skips[@]}"
  run_groups $GROUP "${named[@]:GROUP}"
fi
[ "$status" != 0 ] || exit 0

# Each program lists its failed tests, indented, after a line `failures:`. A program that was killed lists none: there is
# nothing to run again.
mapfile -t failed < <(awk '/^failures:$/ { list = 1; next } list && /^    [^ ]+$/ { print $1; next } { list = 0 }' "$log" | sort -u)
started=$(grep -cE '^running [0-9]+ tests?$' "$log" || true)
ended=$(grep -cE '^test result: ' "$log" || true)
counted=$(grep -oP '^test result: .* \K[0-9]+(?= failed)' "$log" | awk '{ sum += $1 } END { print sum + 0 }')
if [ "$started" != "$ended" ] || [ "$counted" != "${#failed[@]}" ] || [ "${#failed[@]}" = 0 ]; then exit "$status"; fi
[ "${#failed[@]}" -le "$AGAIN_MAX" ] || die "${#failed[@]} tests failed, which is too many for a second run: $(printf '\n  %s' "${failed[@]}")"

say "Running ${#failed[@]} failed tests again, one after another ..."
cargo test --no-fail-fast "${own[@]}" -- --exact --test-threads=1 "${failed[@]}" || die "failed again, all or some of them: $(printf '\n  %s' "${failed[@]}")"
say "UNSTEADY: failed beside other tests, and passed alone: $(printf '\n  %s' "${failed[@]}")"
