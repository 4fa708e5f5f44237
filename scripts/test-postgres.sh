#!/usr/bin/env bash
# Runs API tests on PostgreSQL: all of them, or with `selected` those that scripts/select-tests.py selects from the record of the last
# run on SQLite, which `make test-sqlite` keeps in target/statements.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

record=target/statements
names=()
if [ "${1:-}" = selected ]; then
  [ -e "$record/complete" ] || die "there is no record of the tests on SQLite: run make test-sqlite"
  mapfile -t names < <(cargo test --quiet --test api -- --list | scripts/select-tests.py "$record")
  [ "${#names[@]}" -gt 0 ] || die "no test was selected"
fi
export OPENVIBE_TEST_DATABASE=postgres
scripts/with-postgres.sh scripts/cargo-test.sh --quiet --test api ${names:+-- --exact "${names[@]}"}
