#!/bin/sh
# Installs OpenVibe on this machine, as a service of systemd:
#
#   curl -fsSL URL/install.sh | sh -s -- chat.example.org
#
# With a name, the server gets its certificate by itself. Without one, it listens on 127.0.0.1:8080, for a proxy. Nothing is installed
# before the signature of the release and the checksum of the program were checked. Everything is in a function, so that a script that
# was cut runs nothing.
set -eu

SIGNERS='@SIGNERS@'
URL=${OPENVIBE_RELEASES:-'@URL@'}

fail() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

get() { curl -fsSL --proto '=https,http,file' --max-time 600 -o "$2" "$1" || fail "cannot download $1"; }

main() {
  [ -n "$SIGNERS" ] || fail "this script was made without a key that signs releases."
  [ -n "$URL" ] || fail "set OPENVIBE_RELEASES to the address of the release."
  [ "$(uname -s)" = Linux ] || fail "OpenVibe runs on Linux."
  case $(uname -m) in
    x86_64 | amd64) arch=x86_64 ;;
    aarch64 | arm64) arch=aarch64 ;;
    *) fail "there is no program for $(uname -m)." ;;
  esac
  for program in curl ssh-keygen sha256sum; do
    command -v $program >/dev/null || fail "$program is missing: install it first (ssh-keygen is in the package openssh-client)."
  done
  as_root=
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "run this script as root."
    as_root=sudo
  fi

  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  cd "$dir"
  for name in SHA256SUMS SHA256SUMS.sig latest.json; do get "$URL/$name" $name; done
  printf '%s\n' "$SIGNERS" >signers
  ssh-keygen -q -Y verify -f signers -I release -n openvibe-release -s SHA256SUMS.sig <SHA256SUMS >/dev/null 2>&1 ||
    fail "the signature of the release is wrong: nothing was installed."
  version=$(sed -n 's/^ *"version": "\([0-9.]*\)",*$/\1/p' latest.json)
  file=openvibe-$version-linux-$arch
  get "$URL/$file" "$file"
  for name in latest.json "$file"; do
    grep -F "  $name" SHA256SUMS | grep -x "[0-9a-f]*  $name" | sha256sum -c --quiet - >/dev/null 2>&1 ||
      fail "$name is not the file that was released: nothing was installed."
  done
  chmod 755 "$file" "$dir"
  if [ $# -gt 0 ]; then
    $as_root "./$file" install --domain "$1"
  else
    $as_root "./$file" install
  fi
}

main "$@"
