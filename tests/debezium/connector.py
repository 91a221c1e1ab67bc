"""Debezium's connector in any version, as a folder of a Connect worker's plugin.path.

A version is published as an archive with all of its jars. A registry may serve only the connector's own jar, which then
replaces the older one among the libraries of another version (`debezium.libraries` in pom.xml). A class that calls a method
those libraries lack cannot be loaded: OLDER names it, and it stays as it was in the other version. `Connector.name` says both.
"""

import pathlib
import re
import shutil
import subprocess
import tarfile
import zipfile
from dataclasses import dataclass

ARTIFACT = "io.debezium:debezium-connector-postgres"
FOLDER = "debezium-connector-postgres"
POM = pathlib.Path(__file__).parent / "pom.xml"
OLDER = {"3.7.1.Final": {"io/debezium/connector/postgresql/PostgresConnectorConfig.class": "validates unavailable.value.placeholder"}}
"""By version: classes that need newer libraries, and what they change."""
MAVEN = ["mvn", "-q", "-B", "-Dstyle.color=never"]


class NotServed(Exception):
    """The registry has no such artifact, in Maven's words."""


@dataclass(frozen=True)
class Connector:
    version: str
    folder: pathlib.Path
    """One folder with the jars, for plugin.path."""
    libraries: str
    """The version of the other jars of Debezium."""

    @property
    def jar(self):
        return self.folder / FOLDER / f"{FOLDER}-{self.version}.jar"

    @property
    def name(self):
        """What a recording says of its Debezium."""
        return self.version if self.libraries == self.version else f"{self.version} (libraries {self.libraries})"


def reference_version():
    """Returns the version whose bytes outboxd writes."""
    return re.search("<debezium.version>(.*)</debezium.version>", POM.read_text())[1]


def libraries_version():
    """Returns the newest version whose archive is served whole."""
    return re.search("<debezium.libraries>(.*)</debezium.libraries>", POM.read_text())[1]


def fetched(root, version):
    """Returns the connector of that version, fetched once into the folder."""
    home = root / "debezium-connectors" / version
    if not home.exists():
        partial = home.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            unpack(artifact(partial, f"{ARTIFACT}:{version}:tar.gz:plugin"))
        except NotServed:
            assemble(root, partial, version)
        partial.rename(home)
    names = (jar.stem.removeprefix("debezium-connector-common-") for jar in (home / FOLDER).glob("debezium-connector-common-*"))
    return Connector(version, home, next(names, version))


def assemble(root, folder, version):
    """Puts the connector's own jar among the other version's libraries."""
    jar = artifact(folder, f"{ARTIFACT}:{version}:jar")
    base = fetched(root, libraries_version())
    shutil.copytree(base.folder / FOLDER, folder / FOLDER, ignore=shutil.ignore_patterns(base.jar.name))
    with zipfile.ZipFile(jar) as new, zipfile.ZipFile(base.jar) as old, zipfile.ZipFile(folder / FOLDER / jar.name, "w") as mixed:
        for entry in new.infolist():
            mixed.writestr(entry, (old if entry.filename in OLDER.get(version, {}) else new).read(entry.filename))
    jar.unlink()


def unpack(archive):
    with tarfile.open(archive) as members:
        members.extractall(archive.parent, filter="data")
    archive.unlink()


def artifact(folder, coordinates):
    """Returns the file of one artifact, `group:name:version:type[:classifier]`, copied into the folder."""
    before = set(folder.iterdir())
    command = [*MAVEN, "dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder)
    copied = [path for path in folder.iterdir() if path not in before]
    if not copied:
        raise NotServed(next((line for line in done.stdout.splitlines() if "ERROR" in line), done.stdout + done.stderr))
    return copied[0]
