#!/usr/bin/env bash
# Adds to a directory with programs everything else of a release: Debian packages, an OCI image, latest.json, install.sh, checksums,
# and their signature. `make release` runs it; tests run it with other programs.
#
#   VERSION=1.3.0 SOURCE_DATE_EPOCH=… DATE=2027-03-01 NOTES=… CERTIFICATES=roots.pem deploy/release/pack.sh DIRECTORY
#
# DIRECTORY has openvibe-VERSION-linux-ARCHITECTURE for one or both architectures, and openvibe-VERSION-notices.txt. RELEASE_KEY, RELEASE_URL,
# MIN_FROM, and SECURITY are those of scripts/release.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
. "$root/scripts/lib.sh"

out=$(cd "$1" && pwd)
export TZ=UTC LC_ALL=C SOURCE_DATE_EPOCH
umask 022

# Usage: build_package ARCHITECTURE DEBIAN_ARCHITECTURE
build_package() {
  local tree size
  tree=$(mktemp -d)
  install -D -m 755 "$out/openvibe-$VERSION-linux-$1" "$tree/usr/bin/openvibe"
  install -d "$tree/usr/share/doc/openvibe"
  cat "$root/LICENSE" "$out/openvibe-$VERSION-notices.txt" >"$tree/usr/share/doc/openvibe/copyright"
  install -d "$tree/DEBIAN"
  install -m 755 "$here"/{postinst,prerm,postrm} "$tree/DEBIAN/"
  # Not by `du`, whose sizes depend on the file system.
  size=$(find "$tree/usr" -type f -printf '%s\n' | awk '{ kib += int(($1 + 1023) / 1024) } END { print kib }')
  cat >"$tree/DEBIAN/control" <<END
Package: openvibe
Version: $VERSION
Architecture: $2
Maintainer: OpenVibe maintainers <openvibe@localhost>
Installed-Size: $size
Section: net
Priority: optional
Description: team chat in which AI agents are teammates
 A self-hosted, real-time team chat server with a web client. The program is static and needs no other package.
END
  find "$tree" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
  # With more threads, the compressed file depends on the number of processors.
  dpkg-deb --root-owner-group -Zxz --threads-max=1 --build "$tree" "$out/openvibe_${VERSION}_$2.deb" >/dev/null
  rm -rf "$tree"
}

write_latest() {
  python3 - "$VERSION" "$DATE" "${SECURITY:-}" "$NOTES" "${MIN_FROM:-0.1.0}" "$@" >"$out/latest.json" <<'END'
import json, sys
version, date, security, notes, min_from, *files = sys.argv[1:]
print(json.dumps({"version": version, "date": date, "security": bool(security), "notes": notes.strip(), "min_from": min_from, "files": files}, indent=2))
END
}

write_installer() {
  python3 - "$here/install.sh" "$here/release.pub" "${RELEASE_URL:-}" >"$out/install.sh" <<'END'
import sys
script, keys, url = open(sys.argv[1]).read(), open(sys.argv[2]).read(), sys.argv[3]
lines = [line for line in keys.splitlines() if line.startswith("ssh-")]
signers = "\n".join('release namespaces="openvibe-release" ' + line for line in lines)
print(script.replace("@SIGNERS@", signers).replace("@URL@", url), end="")
END
  chmod 755 "$out/install.sh"
}

programs=() packages=()
for pair in x86_64:amd64 aarch64:arm64; do
  [ -e "$out/openvibe-$VERSION-linux-${pair%:*}" ] || continue
  build_package "${pair%:*}" "${pair#*:}"
  programs+=("openvibe-$VERSION-linux-${pair%:*}")
  packages+=("openvibe_${VERSION}_${pair#*:}.deb")
done
[ ${#programs[@]} -gt 0 ] || die "$out has no program of version $VERSION."
python3 "$here/image.py" "$VERSION" "$SOURCE_DATE_EPOCH" "$out" "$CERTIFICATES"
write_latest "${programs[@]}" "${packages[@]}" "openvibe-$VERSION-image.tar"
write_installer
rm -f "$out"/SHA256SUMS{,.sig}
(cd "$out" && find . -type f -printf '%P\n' | sort | xargs sha256sum >../SHA256SUMS && mv ../SHA256SUMS .)
if [ -n "${RELEASE_KEY:-}" ]; then
  ssh-keygen -q -Y sign -f "$RELEASE_KEY" -n openvibe-release "$out/SHA256SUMS"
else
  say "Not signed: RELEASE_KEY is not set, so install.sh and \`openvibe update\` will refuse these files."
fi
