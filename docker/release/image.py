#!/usr/bin/env python3
"""Writes an OCI layout with one image for each architecture: image.py FOLDER VERSION REVISION ARCHITECTURE=BINARY=BASE...

BASE is a tar of the files that the binary needs (docker/release/base). The settings are those of docker/Dockerfile; a test
compares them. Equal inputs make equal bytes: times are SOURCE_DATE_EPOCH.
"""

import datetime
import gzip
import hashlib
import io
import json
import os
import pathlib
import re
import sys
import tarfile

ROOT = pathlib.Path(__file__).parents[2]
EPOCH = int(os.environ["SOURCE_DATE_EPOCH"])
CREATED = datetime.datetime.fromtimestamp(EPOCH, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
# Compressed. REHEARSAL allows more, for a binary that is not optimised.
IMAGE_BYTES_MAX = 25_000_000
OCI = "application/vnd.oci.image"


def main():
    folder, version, revision = pathlib.Path(sys.argv[1]), *sys.argv[2:4]
    blobs = folder / "blobs/sha256"
    blobs.mkdir(parents=True)
    images = [image(blobs, version, revision, *one.split("=")) for one in sys.argv[4:]]
    index = {"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": images}
    named = blob(blobs, encoded(index), f"{OCI}.index.v1+json")
    named["annotations"] = {"org.opencontainers.image.ref.name": version}
    (folder / "index.json").write_bytes(encoded({"schemaVersion": 2, "mediaType": f"{OCI}.index.v1+json", "manifests": [named]}))
    (folder / "oci-layout").write_bytes(encoded({"imageLayoutVersion": "1.0.0"}))
    for described in images:
        print(described["platform"]["architecture"], described["digest"], described["size"])


def image(blobs, version, revision, architecture, binary, base):
    layers = [pathlib.Path(base).read_bytes(), layer(pathlib.Path(binary))]
    described = [blob(blobs, gzip.compress(one, 9, mtime=0), f"{OCI}.layer.v1.tar+gzip") for one in layers]
    config = {
        "created": CREATED,
        "architecture": architecture,
        "os": "linux",
        "config": settings((ROOT / "docker/Dockerfile").read_text(), version, revision),
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(one).hexdigest()}" for one in layers]},
        "history": [{"created": CREATED, "created_by": "docker/release/image.py"}] * len(layers),
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": f"{OCI}.manifest.v1+json",
        "config": blob(blobs, encoded(config), f"{OCI}.config.v1+json"),
        "layers": described,
    }
    size = sum(one["size"] for one in described)
    print(f"{architecture}: {size / 1e6:.1f} MB compressed")
    if size > IMAGE_BYTES_MAX and not os.environ.get("REHEARSAL"):
        sys.exit(f"the image for {architecture} has more than {IMAGE_BYTES_MAX} bytes")
    made = blob(blobs, encoded(manifest), f"{OCI}.manifest.v1+json")
    return {**made, "platform": {"architecture": architecture, "os": "linux"}}


def settings(dockerfile, version, revision):
    """Reads what the last stage of the Dockerfile sets."""
    stage = dockerfile[dockerfile.rindex("\nFROM "):].replace("\\\n", " ")
    value = lambda name: re.search(rf"^{name} (.*)$", stage, re.MULTILINE).group(1)
    labels = dict(re.findall(r'(org\.[a-z.]+)="([^"]*)"', stage))
    labels |= {
        "org.opencontainers.image.version": version,
        "org.opencontainers.image.revision": revision,
        "org.opencontainers.image.created": CREATED,
    }
    return {
        "User": value("USER"),
        "ExposedPorts": {f"{value('EXPOSE')}/tcp": {}},
        "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", value("ENV")],
        "Entrypoint": json.loads(value("ENTRYPOINT")),
        "Cmd": json.loads(value("CMD")),
        "StopSignal": value("STOPSIGNAL"),
        "Labels": labels,
    }


def layer(binary):
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        data = binary.read_bytes()
        entry = tarfile.TarInfo("usr/local/bin/outboxd")
        entry.size, entry.mode, entry.mtime = len(data), 0o755, EPOCH
        tar.addfile(entry, io.BytesIO(data))
    return made.getvalue()


def blob(blobs, data, kind):
    digest = hashlib.sha256(data).hexdigest()
    (blobs / digest).write_bytes(data)
    return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def encoded(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


main()
