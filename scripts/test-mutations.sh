#!/usr/bin/env bash
# Breaks the server in each of the ways in tests/mutations, and checks that the tests that a mutation names fail. A mutation is
# a patch, with a sentence and its tests before the difference. Run it by with-postgres.sh:
#
#   scripts/with-postgres.sh scripts/test-mutations.sh [NAME ...]
#
# Works on a copy of the last commit, with its own target directory, in target/mutations; MUTATIONS_TARGET is another one.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

root=$PWD
work=$root/target/mutations
tree=$work/tree
export CARGO_TARGET_DIR=${MUTATIONS_TARGET:-$work/target}
export OPENVIBE_TEST_DATABASE=postgres
# Broken code may have warnings, such as a variable that is not used anymore: tests must find the mutation, not the lints.
unset RUSTC_WORKSPACE_WRAPPER CLIPPY_ARGS
# The tests do not use the web client.
export OPENVIBE_WEB_DIST=${OPENVIBE_WEB_DIST:-$work/web}
mkdir -p "$work/web"
echo '<!doctype html>' >"$work/web/index.html"

[ $# -gt 0 ] || set -- $(basename -s .patch tests/mutations/*.patch)
git worktree remove --force "$tree" 2>/dev/null || true
git worktree add --quiet --force --detach "$tree" HEAD
trap 'git -C "$root" worktree remove --force "$tree"' EXIT
cd "$tree"

survivors=
for name in "$@"; do
  patch=$root/tests/mutations/$name.patch
  log=$work/$name.log
  git checkout --quiet -- .
  git apply "$patch" || die "$patch does not apply: adapt it to the code."
  cargo test --quiet --no-run --test api >"$log" 2>&1 || die "$name does not compile: $(cat "$log")"
  for test in $(sed -n 's/^Test: //p' "$patch"); do
    if cargo test --quiet --test api -- "$test" >"$log" 2>&1; then
      say "$name: $test passes"
      survivors+=" $name"
    elif grep -q '^test result: FAILED' "$log"; then
      say "$name: fails $(sed -n 's/^    \([a-z0-9_:]*\)$/\1/p' "$log" | sort -u | tr '\n' ' ')"
    else
      die "$name: $test could not run: $(tail -n 20 "$log")"
    fi
  done
done
[ -z "$survivors" ] || die "no test noticed:$survivors"
