#!/usr/bin/env bash
# Ensures that the tools for the tests, besides Rust and Node, are available: PostgreSQL server programs, Chromium with
# fonts, Python with venv, an S3 server, NATS, HAProxy, a certificate authority, bubblewrap, ssh-keygen, and curl. Installs missing tools, as root or
# with sudo. Fails if that is not possible, because no test is skipped. Prints nothing if nothing is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

has_postgres() { [ -n "$(postgres_bin)" ]; }
has_chromium() { "${OPENVIBE_CHROMIUM:-/usr/bin/chromium}" --version >/dev/null 2>&1; }
has_fonts() { command -v fc-list >/dev/null && [ -n "$(fc-list :lang=en family)" ] && [ -n "$(fc-list :lang=und-zsye family)" ]; }
has_nats() { [ -n "$(server_program nats-server)" ]; }
has_haproxy() { [ -n "$(server_program haproxy)" ]; }
has_pebble() { command -v pebble >/dev/null && command -v pebble-challtestsrv >/dev/null; }
has_ssh_keygen() { command -v ssh-keygen >/dev/null; }
has_curl() { command -v curl >/dev/null; }
has_bubblewrap() { command -v bwrap >/dev/null; }
has_python() { python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

missing=()
has_postgres || missing+=(postgresql)
has_chromium || missing+=(chromium)
has_fonts || missing+=(fontconfig fonts-dejavu-core fonts-noto-color-emoji)
has_python || missing+=(python3 python3-venv)
has_pebble || missing+=(pebble)
has_ssh_keygen || missing+=(openssh-client)
has_curl || missing+=(curl)
has_bubblewrap || missing+=(bubblewrap)
services=()
has_nats || services+=(nats-server)
has_haproxy || services+=(haproxy)
missing+=("${services[@]}")
if [ ${#missing[@]} -gt 0 ]; then
  install_packages "${missing[@]}" || say "could not install: ${missing[*]}"
  # Services do not start with the machine: the tests run these programs themselves.
  if [ ${#services[@]} -gt 0 ] && command -v systemctl >/dev/null; then
    as_root systemctl disable --quiet "${services[@]}" >/dev/null 2>&1 || true
  fi
  hash -r
fi
has_postgres || die "no PostgreSQL server programs (initdb, postgres). Install the package postgresql, or add them to PATH."
has_chromium || die "no Chromium. Install the package chromium, or set OPENVIBE_CHROMIUM to the path of Chromium or Chrome."
has_fonts || die "no fonts for the browser tests. Install fontconfig, fonts-dejavu-core, and fonts-noto-color-emoji."
has_python || die "no Python 3.11 or newer with venv. Install the packages python3 and python3-venv."
has_nats || die "no NATS server. Install the package nats-server, or add nats-server to PATH."
has_haproxy || die "no HAProxy. Install the package haproxy, or add haproxy to PATH."
has_ssh_keygen || die "no ssh-keygen. Install the package openssh-client."
has_curl || die "no curl. Install the package curl."
has_bubblewrap || die "no bubblewrap. Install the package bubblewrap."
has_pebble || die "no Pebble. Install the package pebble, or add pebble and pebble-challtestsrv to PATH."

# tests/api starts the S3 server of tests/s3.
venv=target/s3/python
if ! cmp -s tests/s3/requirements.txt $venv/requirements.txt; then
  rm -rf $venv
  python3 -m venv $venv ||
    die "Python could not create a virtual environment. Install the packages python3 and python3-venv."
  $venv/bin/pip install --quiet --disable-pip-version-check --only-binary :all: -r tests/s3/requirements.txt ||
    die "could not install the Python packages in tests/s3/requirements.txt."
  cp tests/s3/requirements.txt $venv/requirements.txt
fi
