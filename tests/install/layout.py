"""Checks what a release has made: layout.py OCI_TAR SBOM PROVENANCE BINARY"""

import gzip
import hashlib
import io
import json
import pathlib
import sys
import tarfile


def main():
    archive, sbom, provenance, binary = map(pathlib.Path, sys.argv[1:])
    with tarfile.open(archive) as tar:
        files = {entry.name.removeprefix("./"): tar.extractfile(entry).read() for entry in tar if entry.isfile()}
    image(files, binary.read_bytes())
    print("ok: the image has the binary, what it links, and the settings of the Dockerfile")
    components = json.loads(sbom.read_text())["components"]
    names = {component["name"] for component in components}
    assert {"rdkafka-sys", "openssl-src", "tokio", "connect-data"} <= names and "proptest" not in names
    assert all(component.get("hashes") for component in components if "purl" in component)
    print(f"ok: the SBOM has {len(components)} crates")
    statement = json.loads(provenance.read_text())
    subjects = {subject["name"]: subject["digest"]["sha256"] for subject in statement["subject"]}
    assert subjects[archive.name] == hashlib.sha256(archive.read_bytes()).hexdigest()
    assert sbom.name in subjects and any(name.endswith(".crate") for name in subjects)
    print("ok: the provenance names the files")


def image(files, binary):
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    for name, data in files.items():
        if name.startswith("blobs/sha256/"):
            assert hashlib.sha256(data).hexdigest() == name.rpartition("/")[2], name
    read = lambda described: files["blobs/sha256/" + described["digest"].removeprefix("sha256:")]
    index = json.loads(read(json.loads(files["index.json"])["manifests"][0]))
    manifest = json.loads(read(index["manifests"][0]))
    config = json.loads(read(manifest["config"]))
    settings = config["config"]
    assert settings["User"] == "65532:65532" and settings["StopSignal"] == "SIGTERM"
    assert settings["Entrypoint"] == ["/usr/local/bin/outboxd"] and settings["Cmd"][0] == "run"
    assert settings["Labels"]["org.opencontainers.image.licenses"] == "Apache-2.0"
    assert "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt" in settings["Env"]
    entries = {}
    for described, diff in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        layer = gzip.decompress(read(described))
        assert diff == f"sha256:{hashlib.sha256(layer).hexdigest()}"
        with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
            entries |= {entry.name.removeprefix("./"): (entry, tar.extractfile(entry).read() if entry.isfile() else b"") for entry in tar}
    assert entries["usr/local/bin/outboxd"][1] == binary
    for needed in ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2"]:
        assert f"lib/x86_64-linux-gnu/{needed}" in entries, needed
    assert entries["etc/ssl/certs/ca-certificates.crt"][1].count(b"BEGIN CERTIFICATE") > 100
    assert b"nonroot:x:65532" in entries["etc/passwd"][1]


main()
