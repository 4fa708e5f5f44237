#!/usr/bin/env bash
# Makes sure of what the tests need beside Rust and Node: a PostgreSQL server's programs, Chromium,
# fonts for it, and a Python that makes virtual environments. Installs what is missing, as root or through sudo. What cannot be had is an
# error that says so: no suite is skipped for want of a tool. Says nothing when all is well.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

has_postgres() { [ -n "$(postgres_bin)" ]; }
has_chromium() { "${OPENVIBE_CHROMIUM:-/usr/bin/chromium}" --version >/dev/null 2>&1; }
has_fonts() { command -v fc-list >/dev/null && [ -n "$(fc-list :lang=en family)" ] && [ -n "$(fc-list :lang=und-zsye family)" ]; }
has_python() { python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1; }

missing=()
has_postgres || missing+=(postgresql)
has_chromium || missing+=(chromium)
has_fonts || missing+=(fontconfig fonts-dejavu-core fonts-noto-color-emoji)
has_python || missing+=(python3 python3-venv)
[ ${#missing[@]} -gt 0 ] || exit 0

install_packages "${missing[@]}" || say "Could not install: ${missing[*]}"
hash -r
has_postgres || die "no PostgreSQL server programs (initdb, postgres). Install the package postgresql, or put them into the PATH."
has_chromium || die "no Chromium. Install the package chromium, or name the program of a Chromium or Chrome in OPENVIBE_CHROMIUM."
has_fonts || die "no fonts for the browser tests. Install fontconfig, fonts-dejavu-core and fonts-noto-color-emoji."
has_python || die "no Python 3.10 or newer with venv. Install the packages python3 and python3-venv."
