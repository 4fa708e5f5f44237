#!/usr/bin/env bash
# Runs checks that take too long for each change: everything from nothing, and chaos, kills, generated trees, inboxes, guests, and
# repositories, patches of agents, and fuzzing with new seeds for about 10 minutes each; then damaged backups, mutations, real model
# servers, and clients and coding agents of other projects. Goes on after a failure; the last lines are the commands that failed, with
# their seeds. SEED is the seed of all of them.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

seed=${SEED:-$RANDOM}
failed=
run() {
  say "nightly: $*"
  "$@" || failed+=$(printf '\n  %s' "$*")
}

run env CI_FROM_NOTHING=1 OPENVIBE_TEST_SAMPLE= .ci/run
run make check-docs
run make test-postgres
for engine in sqlite postgres; do
  run make chaos ENGINE=$engine SECONDS=300 SEED="$seed"
  run make kills ENGINE=$engine KILLS=150 SEED="$seed"
  run make trees ENGINE=$engine TREES=300 SEED="$seed"
  run make inbox ENGINE=$engine STEPS=2000 SEED="$seed"
  run make guests ENGINE=$engine STEPS=2000 SEED="$seed"
  run make repositories ENGINE=$engine STEPS=2500 SEED="$seed"
done
run make chaos NODES=3 SECONDS=600 SEED="$seed"
run make test-fuzz CASES=40 SEED="$seed"
run make patches SEED="$seed"
run make flips
run make mutations
run make model-servers
run make test-proxies
run make test-release
run scripts/test-published-clients.sh
run make engines
[ -z "$failed" ] || die "failed: $failed"
