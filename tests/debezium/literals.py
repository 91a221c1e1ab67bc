"""What Kafka Connect makes of InsertHeader's value.literal: tests/cases/header-literals.tsv."""

import pathlib
import subprocess

HERE = pathlib.Path(__file__).parent
FILE = HERE.parent / "cases/header-literals.tsv"
JAVA_MIN = 19
"""The first version of Java that prints floating point numbers as outboxd does."""


def literals(home, check_only):
    """Reads every literal anew, or with `check_only` tells what would change; how many lines differ."""
    _, *lines = FILE.read_text().removesuffix("\n").split("\n")
    wanted = [line.partition("\t")[0] for line in lines]
    program = ["java", "-cp", f"{home}/libs/*", HERE / "HeaderLiterals.java"]
    run = subprocess.run(program, input="".join(f"{literal}\n" for literal in wanted), capture_output=True, text=True, check=True)
    versions, *read = run.stdout.removesuffix("\n").split("\n")
    if int(versions.rpartition("Java ")[2].split(".")[0]) < JAVA_MIN:
        raise RuntimeError(f"{versions}: Java {JAVA_MIN} or later is needed")
    differing = [(old, new) for old, new in zip(lines, read, strict=True) if old != new]
    for old, new in differing:
        print(f"file {old}", f"came {new}", sep="\n    ", flush=True)
    if not check_only:
        head = f"# literal\tSimpleHeaderConverter\tJsonConverter  (read by {versions})"
        FILE.write_text("\n".join([head, *read]) + "\n")
    print(f"{len(differing)} of {len(lines)} lines differ")
    return len(differing)
