#!/usr/bin/env python3
"""Prints the components of the binary in CycloneDX 1.5: sbom.py VERSION

They are the crates that `cargo metadata` resolves for the features of the image, those of build scripts too: the sources of librdkafka,
OpenSSL, curl, zlib, zstd and jemalloc are in crates that end with `-sys` or `-src`.
"""

import json
import pathlib
import subprocess
import sys
import tomllib
import uuid

ROOT = pathlib.Path(__file__).parents[2]
FEATURES = ["--no-default-features", "--features", "full"]
PLATFORM = "x86_64-unknown-linux-gnu"
REGISTRY = "registry+https://github.com/rust-lang/crates.io-index"


def main():
    command = ["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", PLATFORM, *FEATURES]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    root = next(id for id, package in packages.items() if package["name"] == "outboxd")
    lock = tomllib.loads((ROOT / "Cargo.lock").read_text())["package"]
    checksums = {(one["name"], one["version"]): one.get("checksum") for one in lock}
    found = reached(nodes, root)
    parts = [component(packages[id], checksums) for id in sorted(found - {root}, key=lambda id: purl(packages[id]))]
    dependencies = [
        {"ref": purl(packages[id]), "dependsOn": sorted(purl(packages[other]) for other in needed(nodes[id]))}
        for id in sorted(found, key=lambda id: purl(packages[id]))
    ]
    main_part = component(packages[root], checksums) | {"type": "application", "version": sys.argv[1]}
    bom = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": main_part},
        "components": parts,
        "dependencies": dependencies,
    }
    # The same components have the same number.
    bom["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(bom, sort_keys=True))}"
    print(json.dumps(bom, indent=1))


def needed(node):
    """Returns what is compiled for a package: not its tests' dependencies."""
    return {one["pkg"] for one in node["deps"] if any(kind["kind"] != "dev" for kind in one["dep_kinds"])}


def reached(nodes, root):
    found, left = set(), [root]
    while left:
        id = left.pop()
        if id not in found:
            found.add(id)
            left.extend(needed(nodes[id]))
    return found


def component(package, checksums):
    made = {"type": "library", "bom-ref": purl(package), "name": package["name"], "version": package["version"]}
    if package["license"]:
        # Older crates write a slash for OR.
        made["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    checksum = checksums.get((package["name"], package["version"]))
    if checksum:
        made["hashes"] = [{"alg": "SHA-256", "content": checksum}]
    if package["source"] == REGISTRY:
        made["purl"] = purl(package)
    return made


def purl(package):
    return f"pkg:cargo/{package['name']}@{package['version']}"


main()
