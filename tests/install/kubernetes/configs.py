"""Lets outboxd read each configuration in the committed manifests: configs.py BINARY"""

import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[3]
MANIFESTS = ["docker/kubernetes/outboxd.yaml", "tests/install/kubernetes/monitored.expected.yaml"]
SECRETS = "/run/secrets"


def main():
    read = 0
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for name in ["database", "kafka"]:
            (folder / name).mkdir()
            (folder / name / "password").write_text("secret\n")
        for manifest in MANIFESTS:
            text = (ROOT / manifest).read_text()
            for config in re.findall(r"^  connector\.json: \|\n((?:    .*\n)+)", text, re.MULTILINE):
                file = folder / "connector.json"
                file.write_text(config.replace(SECRETS, str(folder)))
                shown = subprocess.run([sys.argv[1], "config", "show", "-c", file], capture_output=True, text=True)
                if shown.returncode or "topic.prefix=" not in shown.stdout or "not used" in shown.stderr:
                    sys.exit(f"outboxd does not read a configuration of {manifest}:\n{shown.stderr}")
                read += 1
    if read < 3:
        sys.exit("the manifests have too few configurations")
    print(f"ok: outboxd reads {read} configurations")


main()
