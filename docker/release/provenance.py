#!/usr/bin/env python3
"""Prints the provenance of the files of a release: provenance.py FOLDER REVISION BUILDER INVOCATION

An in-toto statement with SLSA's predicate: which files, from which commit, by which builder. The signature of SHA256SUMS covers it.
"""

import hashlib
import json
import pathlib
import sys


def main():
    folder, revision, builder, invocation = pathlib.Path(sys.argv[1]), *sys.argv[2:]
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    digest = lambda file: hashlib.sha256(file.read_bytes()).hexdigest()
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": file.relative_to(folder).as_posix(), "digest": {"sha256": digest(file)}} for file in files],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "docker/release/build",
                "externalParameters": {"revision": revision},
                "resolvedDependencies": [{"uri": "git+local", "digest": {"gitCommit": revision}}],
            },
            "runDetails": {"builder": {"id": builder}, "metadata": {"invocationId": invocation}},
        },
    }
    print(json.dumps(statement, indent=1))


main()
