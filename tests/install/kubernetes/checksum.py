"""Prints the checksum of the chart and of the values that the committed manifests are made from.

Without files/alerts.yaml, whose text in the manifests tests/checks compares. tests/checks/install.rs makes the same checksum.
"""

import hashlib
import pathlib

root = pathlib.Path(__file__).parents[3]
chart, values = root / "docker/helm/outboxd", root / "tests/install/kubernetes"
files = [file for file in chart.rglob("*") if file.is_file() and not file.is_symlink()]
files += values.glob("*.values.yaml")
checksum = hashlib.sha256()
for name, file in sorted((file.relative_to(root).as_posix(), file) for file in files):
    checksum.update(name.encode() + b"\0" + file.read_bytes() + b"\0")
print(checksum.hexdigest())
