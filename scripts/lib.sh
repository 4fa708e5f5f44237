# shellcheck shell=bash
# Shared by the scripts beside it; to be sourced.

say() { printf '%s\n' "$*" >&2; }

die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# Runs a command as root: directly, or through sudo.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    say "Not root, and there is no sudo to run: $*"
    return 1
  fi
}

# Installs packages by name with the system's package manager. 1 when that cannot be done here.
install_packages() {
  if ! command -v apt-get >/dev/null; then
    say "This system has no apt-get to install: $*"
    return 1
  fi
  say "Installing $* ..."
  local quietly=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
  # A fresh machine has no package lists, an old one may have lists whose files are gone.
  as_root "${quietly[@]}" install -y --no-install-recommends "$@" >/dev/null 2>&1 ||
    { as_root "${quietly[@]}" update && as_root "${quietly[@]}" install -y --no-install-recommends "$@" >/dev/null; }
}

# The directory with PostgreSQL's server programs, the newest first; nothing when there are none.
# Debian keeps them out of the PATH.
postgres_bin() {
  local initdb
  initdb=$(ls -d /usr/lib/postgresql/*/bin/initdb 2>/dev/null | sort -V | tail -n 1)
  [ -n "$initdb" ] || initdb=$(command -v initdb || true)
  if [ -n "$initdb" ]; then dirname "$(readlink -f "$initdb")"; fi
}
