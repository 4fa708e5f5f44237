"""Prints the licenses of everything that is part of the program: crates, packages of the web client, and the C library.

    notices.py METADATA CLIENT [NAME=FILE ...]

METADATA is the output of `cargo metadata --format-version 1`, and CLIENT the directory with package-lock.json and node_modules. Each NAME
is something else that is linked, with the FILE that has its license. Equal texts are printed once. The order does not depend on the machine.
"""

import json
import re
import sys
from pathlib import Path

LICENSE_FILE = re.compile(r"(licen[cs]es?|copying|copyright|notice|unlicense|patents|ofl)([-._].*)?", re.IGNORECASE)
NOT_TEXTS = {".rs", ".py", ".js", ".mjs", ".json", ".toml", ".html", ".sh", ".ts"}
RULE = "=" * 100


def read_text(file):
    """Text of a file without the spaces at the ends of lines and without empty lines around it."""
    return "\n".join(line.rstrip() for line in file.read_text(errors="replace").splitlines()).strip("\n")


def license_texts(folder):
    """Texts of the license files of a package, also of the sources of others in it."""
    files = [f for f in folder.rglob("*") if LICENSE_FILE.fullmatch(f.name) and f.suffix.lower() not in NOT_TEXTS and f.is_file()]
    own = [f for f in files if "node_modules" not in f.relative_to(folder).parts]
    texts = []
    for file in sorted(own, key=lambda f: f.relative_to(folder).as_posix()):
        text = read_text(file)
        if text and text not in texts:
            texts.append(text)
    return texts


def crates(metadata):
    """Crates that are linked into the program, without those of this repository: (name, license, authors, folder)."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting, seen = [metadata["resolve"]["root"]], set()
    while waiting:
        package = waiting.pop()
        if package in seen:
            continue
        seen.add(package)
        for dependency in nodes[package]["deps"]:
            # Dependencies of build scripts and tests are not linked.
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                waiting.append(dependency["pkg"])
    for package in (packages[id] for id in seen):
        if package["source"] is not None:
            folder = Path(package["manifest_path"]).parent
            yield f'{package["name"]} {package["version"]}', package["license"] or "", package["authors"], folder


def client_packages(client):
    lock = json.loads((client / "package-lock.json").read_text())
    for path, package in lock["packages"].items():
        if path and not package.get("dev") and not package.get("optional"):
            name = path.rpartition("node_modules/")[2]
            yield f'{name} {package["version"]}', package.get("license", ""), [], client / path


def main():
    metadata, client = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2])
    users, without = {}, []
    for name, license, authors, folder in sorted([*crates(metadata), *client_packages(client)], key=lambda found: found[0]):
        texts = license_texts(folder)
        for text in texts:
            users.setdefault(text, []).append(name)
        if not texts:
            without.append(f"{name}: {license}" + (f", by {', '.join(authors)}" if authors else ""))
    for other in sys.argv[3:]:
        name, _, file = other.partition("=")
        users.setdefault(read_text(Path(file)), []).append(name)
    if not users:
        sys.exit("error: no license was found")
    print("OpenVibe contains the following software of others.")
    for text, names in sorted(users.items(), key=lambda found: found[1]):
        print(f"\n{RULE}\n{', '.join(sorted(names))}\n{RULE}\n\n{text}")
    if without:
        print(f"\n{RULE}\nPackages without a license file; the standard texts of these licenses are above\n{RULE}\n")
        print("\n".join(without))


main()
