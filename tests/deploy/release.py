"""Tests of `make release`: what deploy/release/pack.sh makes of programs, and, with a directory as argument, a complete release.

    release.py target/release-VERSION
"""

import gzip
import hashlib
import io
import json
import os
import platform
import struct
import subprocess
import sys
import tarfile
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACK = ROOT / "deploy/release/pack.sh"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
EPOCH = 1_800_000_000
NAMESPACE = "openvibe-release"


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, capture_output=True, **options).stdout


class Made:
    """A directory with a release."""

    def __init__(self, directory, version):
        self.directory, self.version = Path(directory), version

    def file(self, name):
        return (self.directory / name).read_bytes()

    def program(self, architecture):
        return self.file(f"openvibe-{self.version}-linux-{architecture}")

    def architectures(self):
        return [known for known in ARCHITECTURES if (self.directory / f"openvibe-{self.version}-linux-{known}").exists()]

    def check_sums(self, test):
        lines = self.file("SHA256SUMS").decode().splitlines()
        sums = {name: digest for digest, name in (line.split("  ") for line in lines)}
        test.assertEqual(list(sums), sorted(sums))
        names = {file.name for file in self.directory.iterdir()} - {"SHA256SUMS", "SHA256SUMS.sig"}
        test.assertEqual(names, set(sums))
        for name, digest in sums.items():
            test.assertEqual(digest, hashlib.sha256(self.file(name)).hexdigest(), name)

    def check_latest(self, test):
        latest = json.loads(self.file("latest.json"))
        test.assertEqual({"version", "date", "security", "notes", "min_from", "files"}, set(latest))
        test.assertEqual(self.version, latest["version"])
        test.assertTrue(latest["notes"].strip())
        for name in latest["files"]:
            test.assertTrue((self.directory / name).exists(), name)
        for architecture in self.architectures():
            test.assertIn(f"openvibe-{self.version}-linux-{architecture}", latest["files"])

    def check_packages(self, test):
        for architecture in self.architectures():
            package = self.directory / f"openvibe_{self.version}_{ARCHITECTURES[architecture]}.deb"
            field = lambda name: run("dpkg-deb", "-f", package, name).decode().strip()
            test.assertEqual(("openvibe", self.version, ARCHITECTURES[architecture]), tuple(map(field, ("Package", "Version", "Architecture"))))
            test.assertGreater(int(field("Installed-Size")), 0)
            with tempfile.TemporaryDirectory() as tree:
                run("dpkg-deb", "-R", package, tree)
                test.assertEqual(self.program(architecture), Path(tree, "usr/bin/openvibe").read_bytes())
                test.assertTrue(os.access(Path(tree, "usr/bin/openvibe"), os.X_OK))
                notices = self.file(f"openvibe-{self.version}-notices.txt")
                test.assertTrue(Path(tree, "usr/share/doc/openvibe/copyright").read_bytes().endswith(notices))
                for script in ("postinst", "prerm", "postrm"):
                    run("sh", "-n", Path(tree, "DEBIAN", script))
            listed = run("dpkg-deb", "-c", package).decode().splitlines()
            test.assertTrue(all(" root/root " in line for line in listed), listed)

    def check_image(self, test):
        with tarfile.open(self.directory / f"openvibe-{self.version}-image.tar") as tar:
            files = {member.name: tar.extractfile(member).read() for member in tar if member.isfile()}
        test.assertEqual({"imageLayoutVersion": "1.0.0"}, json.loads(files["oci-layout"]))
        known = {name for name in files if name.startswith("blobs/")}

        def blob(descriptor):
            name = "blobs/" + descriptor["digest"].replace(":", "/")
            known.discard(name)
            test.assertEqual(descriptor["digest"], "sha256:" + hashlib.sha256(files[name]).hexdigest())
            test.assertEqual(descriptor["size"], len(files[name]))
            return files[name]

        (images,) = json.loads(files["index.json"])["manifests"]
        images = json.loads(blob(images))["manifests"]
        test.assertEqual([ARCHITECTURES[known] for known in self.architectures()], [image["platform"]["architecture"] for image in images])
        for architecture, image in zip(self.architectures(), images):
            manifest = json.loads(blob(image))
            config = json.loads(blob(manifest["config"]))
            test.assertEqual((ARCHITECTURES[architecture], "linux"), (config["architecture"], config["os"]))
            test.assertEqual((["/openvibe"], "10001"), (config["config"]["Entrypoint"], config["config"]["User"]))
            (layer,) = manifest["layers"]
            layer = gzip.decompress(blob(layer))
            test.assertEqual(["sha256:" + hashlib.sha256(layer).hexdigest()], config["rootfs"]["diff_ids"])
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                entries = {member.name: member for member in tar}
                test.assertEqual(self.program(architecture), tar.extractfile("openvibe").read())
                test.assertIn(b"BEGIN CERTIFICATE", tar.extractfile("etc/ssl/certs/ca-certificates.crt").read())
            test.assertEqual((0o755, 0), (entries["openvibe"].mode, entries["openvibe"].uid))
            test.assertEqual((0o700, 10001), (entries["data"].mode, entries["data"].uid))
            test.assertIn("usr/share/doc/openvibe/copyright", entries)
            test.assertFalse([name for name in entries if name.startswith(("bin/", "usr/bin/"))], "the image has a shell")
            test.assertEqual({EPOCH if self.version == "9.9.9" else entries["openvibe"].mtime}, {member.mtime for member in entries.values()})
        test.assertEqual(set(), known)

    def check_bill(self, test):
        bill = json.loads(self.file(f"openvibe-{self.version}.cdx.json"))
        names = {component["name"] for component in bill["components"]}
        test.assertLessEqual({"tokio", "rustls", "svelte"}, names)
        test.assertNotIn(str(ROOT), json.dumps(bill))

    def check_programs(self, test):
        machines = {"x86_64": 62, "aarch64": 183}
        for architecture in self.architectures():
            program = self.program(architecture)
            test.assertEqual(b"\x7fELF", program[:4])
            (machine,) = struct.unpack_from("<H", program, 18)
            test.assertEqual(machines[architecture], machine)
            (table,) = struct.unpack_from("<Q", program, 32)
            size, count = struct.unpack_from("<HH", program, 54)
            kinds = [struct.unpack_from("<I", program, table + n * size)[0] for n in range(count)]
            test.assertNotIn(3, kinds, "the program needs an interpreter, so it is not static")
            test.assertLessEqual(len(program), 60 << 20)
            package = self.directory / f"openvibe_{self.version}_{ARCHITECTURES[architecture]}.deb"
            test.assertLessEqual(package.stat().st_size, 20 << 20)
            test.assertNotIn(str(ROOT).encode(), program, "the program names a directory of the machine that built it")
        if platform.machine() in self.architectures():
            own = self.directory / f"openvibe-{self.version}-linux-{platform.machine()}"
            test.assertEqual(f"openvibe {self.version}", run(own, "--version").decode().strip())
            test.assertIn(b"tokio ", run(own, "licenses"))


def pack(directory, architectures, key):
    """Packs programs that consist of a few bytes, as at another time and place."""
    directory.mkdir()
    for architecture in architectures:
        program = directory / f"openvibe-9.9.9-linux-{architecture}"
        program.write_bytes(b"\x7fELF" + architecture.encode() * 1000)
        program.chmod(0o755)
    (directory / "openvibe-9.9.9-notices.txt").write_text("adler2: 0BSD\n")
    (directory / "openvibe-9.9.9.cdx.json").write_text("{}")
    roots = directory.parent / "roots.pem"
    roots.write_text("-----BEGIN CERTIFICATE-----\n")
    made = {"VERSION": "9.9.9", "DATE": "2027-01-15", "NOTES": "- New", "CERTIFICATES": str(roots), "SOURCE_DATE_EPOCH": str(EPOCH)}
    run(PACK, directory, env={"PATH": os.environ["PATH"], "RELEASE_KEY": str(key), "RELEASE_URL": "https://releases.example.org"} | made, cwd=directory.parent)
    return Made(directory, "9.9.9")


class Packed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.place = Path(cls.temporary.name)
        cls.key = cls.place / "key"
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "release", "-f", cls.key)
        cls.made = pack(cls.place / "made", ARCHITECTURES, cls.key)

    def test_two_runs_give_the_same_bytes(self):
        again = pack(self.place / "again", ARCHITECTURES, self.key)
        names = sorted(file.name for file in self.made.directory.iterdir())
        self.assertEqual(names, sorted(file.name for file in again.directory.iterdir()))
        for name in names:
            self.assertEqual(self.made.file(name), again.file(name), name)

    def test_every_file_has_a_checksum(self):
        self.made.check_sums(self)

    def test_the_list_of_checksums_is_signed(self):
        signers = self.place / "signers"
        signers.write_text(f"release namespaces=\"{NAMESPACE}\" {self.key.with_suffix('.pub').read_text()}")
        verify = ["ssh-keygen", "-q", "-Y", "verify", "-f", str(signers), "-I", "release", "-n", NAMESPACE, "-s", str(self.made.directory / "SHA256SUMS.sig")]
        sums = self.made.file("SHA256SUMS")
        run(*verify, input=sums)
        changed = subprocess.run(verify, input=sums.replace(b"openvibe", b"openvibr", 1), capture_output=True)
        self.assertNotEqual(0, changed.returncode)

    def test_the_description_names_the_files(self):
        self.made.check_latest(self)

    def test_packages_have_the_program_and_its_licenses(self):
        self.made.check_packages(self)

    def test_the_image_has_both_programs_and_no_shell(self):
        self.made.check_image(self)

    def test_the_installer_has_the_address_and_valid_syntax(self):
        script = self.made.file("install.sh").decode()
        self.assertIn("https://releases.example.org", script)
        self.assertNotIn("@URL@", script)
        self.assertNotIn("@SIGNERS@", script)
        run("sh", "-n", self.made.directory / "install.sh")

    def test_one_architecture_alone_can_be_packed(self):
        made = pack(self.place / "one", ["x86_64"], self.key)
        self.assertEqual(["x86_64"], made.architectures())
        for check in (made.check_sums, made.check_latest, made.check_packages, made.check_image):
            check(self)


class Notices(unittest.TestCase):
    def test_licenses_of_what_is_linked_are_printed_once(self):
        with tempfile.TemporaryDirectory() as place:
            place = Path(place)
            kinds = {"linked": None, "twin": None, "bare": None, "builder": "build", "tester": "dev", "own": None}
            packages, dependencies = [], []
            for name, kind in kinds.items():
                (place / name).mkdir()
                if name not in ("bare", "own"):
                    (place / name / "LICENSE-MIT").write_text("Copyright Ann\n" if name in ("linked", "twin") else f"Copyright {name}\n")
                source = None if name == "own" else "registry"
                packages.append({"id": name, "name": name, "version": "1.0.0", "license": "MIT", "authors": ["Ann"], "source": source, "manifest_path": str(place / name / "Cargo.toml")})
                dependencies.append({"pkg": name, "dep_kinds": [{"kind": kind}]})
            (place / "linked/src").mkdir()
            (place / "linked/src/license.rs").write_text("fn main() {}")
            (place / "linked/c").mkdir()
            (place / "linked/c/COPYING").write_text("Copyright of the C library\n")
            root = {"id": "root", "name": "root", "version": "1.0.0", "license": "MIT", "authors": [], "source": None, "manifest_path": str(place / "Cargo.toml")}
            nodes = [{"id": name, "deps": []} for name in kinds] + [{"id": "root", "deps": dependencies}]
            metadata = place / "metadata.json"
            metadata.write_text(json.dumps({"packages": [*packages, root], "resolve": {"root": "root", "nodes": nodes}}))
            client = place / "web"
            (client / "node_modules/marked").mkdir(parents=True)
            (client / "node_modules/marked/LICENSE.md").write_text("Copyright of marked\n")
            lock = {"packages": {"": {}, "node_modules/marked": {"version": "18.0.0", "license": "MIT"}, "node_modules/vite": {"version": "8.0.0", "dev": True}}}
            (client / "package-lock.json").write_text(json.dumps(lock))
            (place / "musl").write_text("Copyright of musl\n")
            script = ROOT / "deploy/release/notices.py"
            printed = run(sys.executable, script, metadata, client, f"musl={place / 'musl'}").decode()
            self.assertEqual(printed, run(sys.executable, script, metadata, client, f"musl={place / 'musl'}").decode())
        self.assertEqual(1, printed.count("Copyright Ann"))
        self.assertIn("linked 1.0.0, twin 1.0.0\n", printed)
        for part in ("Copyright of the C library", "marked 18.0.0", "Copyright of marked", "musl\n", "bare 1.0.0: MIT, by Ann"):
            self.assertIn(part, printed)
        for part in ("builder", "tester", "own 1.0.0", "vite", "fn main"):
            self.assertNotIn(part, printed)


class Bill(unittest.TestCase):
    def test_both_bills_are_joined_in_the_same_order_each_time(self):
        with tempfile.TemporaryDirectory() as place:
            server, client = Path(place, "server.json"), Path(place, "client.json")
            parts = [{"type": "library", "name": name, "version": "1.0.0", "purl": f"pkg:cargo/{name}@1.0.0", "bom-ref": f"/home/ann/{name}"} for name in ("tokio", "axum")]
            client.write_text(json.dumps({"components": [{"type": "library", "name": "marked", "version": "18.0.0", "purl": "pkg:npm/marked@18.0.0"}]}))
            printed = []
            for order in (parts, parts[::-1]):
                server.write_text(json.dumps({"components": order, "serialNumber": str(len(printed))}))
                printed.append(run(sys.executable, ROOT / "deploy/release/bill.py", server, client, "9.9.9", str(EPOCH)))
        self.assertEqual(*printed)
        bill = json.loads(printed[0])
        self.assertEqual(["axum", "tokio", "marked"], [component["name"] for component in bill["components"]])
        self.assertNotIn(b"/home/ann", printed[0])


class Complete(unittest.TestCase):
    """A release that `make release` has made; see the end of this file."""

    made = None

    def test_the_release_is_complete(self):
        for check in (self.made.check_sums, self.made.check_latest, self.made.check_packages, self.made.check_image, self.made.check_bill, self.made.check_programs):
            with self.subTest(check.__name__):
                check(self)


def load_tests(loader, tests, pattern):
    """Only a complete release is tested if there is one."""
    cases = [Packed, Notices, Bill] if Complete.made is None else [Complete]
    return unittest.TestSuite(map(loader.loadTestsFromTestCase, cases))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        directory = Path(sys.argv.pop(1)).resolve()
        Complete.made = Made(directory, directory.name.removeprefix("release-"))
    unittest.main(verbosity=1)
