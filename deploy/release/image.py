"""Writes an OCI image as a tar file (OCI image layout 1.0) for the architectures whose programs are in the directory. It contains the program,
root certificates, and licenses, but no shell.

    image.py VERSION SOURCE_DATE_EPOCH DIRECTORY CERTIFICATES
"""

import gzip
import hashlib
import io
import json
import sys
import tarfile
from datetime import datetime, timezone
from pathlib import Path

USER = 10001
LICENSE = Path(__file__).parents[2] / "LICENSE"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"

version, epoch, directory, certificates = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
licenses = LICENSE.read_bytes() + (directory / f"openvibe-{version}-notices.txt").read_bytes()
architectures = [known for known in ARCHITECTURES if (directory / f"openvibe-{version}-linux-{known}").exists()]
created = datetime.fromtimestamp(epoch, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def entry(name, mode, owner=0, data=None):
    info = tarfile.TarInfo(name)
    info.mode, info.uid, info.gid, info.mtime = mode, owner, owner, epoch
    info.type = tarfile.DIRTYPE if data is None else tarfile.REGTYPE
    info.size = len(data or b"")
    return info, data


def archive(entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data) if data is not None else None)
    return out.getvalue()


blobs = {}


def add(media_type, data):
    digest = hashlib.sha256(data).hexdigest()
    blobs[digest] = data
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(data)}


def image(architecture):
    program = (directory / f"openvibe-{version}-linux-{architecture}").read_bytes()
    layer = archive([
        entry("data", 0o700, USER),
        entry("etc", 0o755),
        entry("etc/passwd", 0o644, data=f"openvibe:x:{USER}:{USER}::/data:/sbin/nologin\n".encode()),
        entry("etc/ssl", 0o755),
        entry("etc/ssl/certs", 0o755),
        entry("etc/ssl/certs/ca-certificates.crt", 0o644, data=certificates.read_bytes()),
        entry("openvibe", 0o755, data=program),
        entry("tmp", 0o1777),
        entry("usr", 0o755),
        entry("usr/share", 0o755),
        entry("usr/share/doc", 0o755),
        entry("usr/share/doc/openvibe", 0o755),
        entry("usr/share/doc/openvibe/copyright", 0o644, data=licenses),
    ])
    config = {
        "created": created,
        "architecture": ARCHITECTURES[architecture],
        "os": "linux",
        "config": {
            "User": str(USER),
            "Env": ["OPENVIBE_LISTEN=0.0.0.0:8080", "OPENVIBE_DATA_DIR=/data", "container=oci"],
            "Entrypoint": ["/openvibe"],
            "Cmd": ["serve"],
            "ExposedPorts": {"8080/tcp": {}},
            "Volumes": {"/data": {}},
            "WorkingDir": "/data",
            "Labels": {"org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "MIT"},
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": add(CONFIG, json.dumps(config, sort_keys=True).encode()),
        "layers": [add(LAYER, gzip.compress(layer, 9, mtime=0))],
    }
    descriptor = add(MANIFEST, json.dumps(manifest, sort_keys=True).encode())
    return descriptor | {"platform": {"architecture": ARCHITECTURES[architecture], "os": "linux"}}


images = add("application/vnd.oci.image.index.v1+json", json.dumps({"schemaVersion": 2, "manifests": [image(a) for a in architectures]}).encode())
images["annotations"] = {"org.opencontainers.image.ref.name": version}
files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": json.dumps({"schemaVersion": 2, "manifests": [images]}).encode()}
files |= {f"blobs/sha256/{digest}": data for digest, data in sorted(blobs.items())}
folders = [entry("blobs", 0o755), entry("blobs/sha256", 0o755)]
(directory / f"openvibe-{version}-image.tar").write_bytes(archive(folders + [entry(name, 0o644, data=data) for name, data in files.items()]))
