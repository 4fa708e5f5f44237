# shellcheck shell=bash
# Functions of the scripts in this directory; source this file.

say() { printf '%s\n' "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Runs a command as root: directly, or with sudo.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    say "not root, and sudo is not available, so this cannot run: $*"
    return 1
  fi
}

# Installs packages by name with the package manager of the system, without starting their services; status 1 if that is not
# possible.
install_packages() (
  if ! command -v apt-get >/dev/null; then
    say "apt-get is not available, so these cannot be installed: $*"
    return 1
  fi
  say "Installing $* ..."
  # Packages ask this program whether to start a service; 101 forbids it. Containers usually have one.
  policy=/usr/sbin/policy-rc.d
  if [ ! -e $policy ]; then
    trap 'as_root rm -f $policy' EXIT
    printf '#!/bin/sh\nexit 101\n' | as_root install -m 755 /dev/stdin $policy || return 1
  fi
  quietly=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
  # A new machine has no package lists, and old lists may contain packages that no longer exist.
  as_root "${quietly[@]}" install -y --no-install-recommends "$@" >/dev/null 2>&1 ||
    { as_root "${quietly[@]}" update && as_root "${quietly[@]}" install -y --no-install-recommends "$@" >/dev/null; }
)

# Prints the path of a server program, if it is installed. Debian's directory of them is not in the PATH of every user.
server_program() { PATH="$PATH:/usr/sbin" command -v "$1" || true; }

# Prints the directory of the newest PostgreSQL server programs, if any. Debian does not add it to PATH.
postgres_bin() {
  local initdb
  initdb=$(ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -n 1)
  [ -n "$initdb" ] || initdb=$(command -v initdb || true)
  if [ -n "$initdb" ]; then dirname "$(readlink -f "$initdb")"; fi
}
