#!/usr/bin/env bash
# Runs `cargo test` with these arguments. A few failed tests are run again, one after another: the suite passes if they pass
# alone, and their names are the last lines of its output. Thousands of tests with deadlines share the processors of a machine
# that may be busy; a test that fails here is flaky and has to be fixed, but it does not hide the result of the others.
#
# If OPENVIBE_TEST_SAMPLE is set, it chooses a third of the API tests of crashes; the others are left out.
#
#   scripts/cargo-test.sh --quiet --test api [-- --exact TEST ...]
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

AGAIN_MAX=5

SAMPLED='crash|(^|[^s])kills?_|_dies|worker_paused|interrupted'

# Prints an option for each test that is left out.
left_out() {
  local name
  [ -n "${OPENVIBE_TEST_SAMPLE:-}" ] || return 0
  cargo test --quiet --test api -- --list | sed -n 's/: test$//p' | grep -E "$SAMPLED" | while read -r name; do
    [ $(($(cksum <<<"$OPENVIBE_TEST_SAMPLE $name" | cut -d ' ' -f 1) % 3)) = 0 ] || printf -- '--skip=%s\n' "$name"
  done
}

own=()
skips=()
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
mapfile -t skips < <(left_out)
# Otherwise, a name also leaves out those that begin with it.
case " $* " in *" -- "*) ;; *) set -- "$@" -- --exact ;; esac
cargo test --no-fail-fast "$@" "${skips[@]}" 2>&1 | tee "$log" || status=$?
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
# Without the names of the tests, if there are any.
for argument; do
  [ "$argument" != -- ] || break
  own+=("$argument")
done
cargo test --no-fail-fast "${own[@]}" -- --exact --test-threads=1 "${failed[@]}" || die "failed again, all or some of them: $(printf '\n  %s' "${failed[@]}")"
say "UNSTEADY: failed beside other tests, and passed alone: $(printf '\n  %s' "${failed[@]}")"
