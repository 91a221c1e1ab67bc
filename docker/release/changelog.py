#!/usr/bin/env python3
"""Cuts the changelog: changelog.py VERSION DATE prints the notes of the release; with --write CHANGELOG.md gets its heading, too."""

import pathlib
import re
import sys

PATH = pathlib.Path(__file__).parents[2] / "CHANGELOG.md"
UNRELEASED = "## [Unreleased]\n"


def main():
    version, date = sys.argv[1:3]
    text = PATH.read_text()
    # A tag is made after the cut: the section has its version then.
    heading = re.search(rf"^## \[{re.escape(version)}\].*\n", text, re.MULTILINE)
    start = heading.end() if heading else text.index(UNRELEASED) + len(UNRELEASED)
    notes = re.split(r"^## \[", text[start:], maxsplit=1, flags=re.MULTILINE)[0].strip()
    if not notes:
        sys.exit(f"CHANGELOG.md has no change for {version}")
    print(notes)
    if sys.argv[3:] == ["--write"] and not heading:
        PATH.write_text(text.replace(UNRELEASED, f"{UNRELEASED}\n## [{version}] - {date}\n", 1))


main()
