#!/usr/bin/env bash
# Tests the texts for nginx, Caddy, Apache, and HAProxy in docs/operations.md with Debian's programs, which it installs if they are
# missing. Arguments are names of proxies.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

missing=()
[ -n "$(server_program nginx)" ] || missing+=(nginx-light)
[ -n "$(server_program caddy)" ] || missing+=(caddy)
[ -n "$(server_program apache2)" ] || missing+=(apache2)
[ -n "$(server_program haproxy)" ] || missing+=(haproxy)
command -v openssl >/dev/null || missing+=(openssl)
[ ${#missing[@]} -eq 0 ] || install_packages "${missing[@]}" || die "install these packages: ${missing[*]}"
PATH=$PATH:/usr/sbin exec python3 tests/deploy/proxies.py "$@"
