"""A record of the inputs from which the image was last compiled, so that it is compiled again only when one of them changes."""

import hashlib
import pathlib

REPOSITORY = pathlib.Path(__file__).parents[2]
RECORD = REPOSITORY / "docker/compiled.sha256"
INPUTS = ["docker/Dockerfile", "docker/Dockerfile.dockerignore", "Cargo.lock", ".cargo/config.toml", "**/Cargo.toml", "**/build.rs"]
IGNORED = {"target", "fuzz"}


def is_recorded():
    return RECORD.exists() and RECORD.read_text() == digest()


def record():
    RECORD.write_text(digest())


def digest():
    sums = hashlib.sha256()
    for path in sorted({path for pattern in INPUTS for path in REPOSITORY.glob(pattern)}):
        if not IGNORED & set(path.relative_to(REPOSITORY).parts):
            sums.update(f"{path.relative_to(REPOSITORY)} {path.stat().st_size}\n".encode() + path.read_bytes())
    return sums.hexdigest() + "\n"
