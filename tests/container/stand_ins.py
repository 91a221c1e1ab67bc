"""Images made from Debian packages and from what the other tests have fetched, under the names that the Dockerfile and
compose.yaml ask for. For machines where no image can be pulled. They live in the engine of the test alone: in another one
they would be taken for the real images."""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

HERE = pathlib.Path(__file__).parent
REPOSITORY = HERE.parents[1]
SUITE = "bookworm"

SHELL = "base-files,bash,coreutils,dash,grep,sed,util-linux"
# Of the packages in the official image those that are used, and those whose libraries could be linked by accident; and cmake, which the
# Dockerfile installs there.
BUILD = f"{SHELL},ca-certificates,cmake,diffutils,file,findutils,g++,gcc,gzip,hostname,libcurl4-openssl-dev,libssl-dev,make," \
        "mawk,patch,perl,pkg-config,tar,zlib1g-dev"
# What distroless' cc image is made of.
RUNTIME = "base-files,ca-certificates,libc6,libgcc-s1,libgomp1,libssl3,libstdc++6,netbase,tzdata"

CARGO = """[source.crates-io]
replace-with = "vendored"
[source.vendored]
directory = "/usr/local/crates"
[net]
offline = true
"""

PASSWD = """root:x:0:0:root:/root:/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin
nonroot:x:65532:65532:nonroot:/home/nonroot:/sbin/nologin
postgres:x:999:999:postgres:/var/lib/postgresql:/bin/bash
appuser:x:1000:1000:appuser:/home/appuser:/bin/bash
"""


class Missing(Exception):
    """Something that a stand-in is made of is not on this machine."""


def names():
    """The images that are asked for: build, runtime, PostgreSQL, Kafka."""
    stages = re.findall(r"^FROM (\S+)", (REPOSITORY / "docker/Dockerfile").read_text(), re.MULTILINE)
    build, runtime = [stage for stage in stages if ":" in stage]
    images = re.findall(r"^ +image: (\S+)", (REPOSITORY / "docker/compose.yaml").read_text(), re.MULTILINE)
    postgres, kafka = [image for image in images if image != "outboxd"]
    return build, runtime, postgres, kafka


def make_for_build(engine, compiled):
    """Makes the images that the Dockerfile names; the one with the compiler only if the binary is compiled there."""
    if not shutil.which("mmdebstrap"):
        raise Missing("mmdebstrap is not here (a Debian package has its name)")
    build, runtime, _, _ = names()
    make_missing(engine, [(runtime, make_runtime)] + ([(build, make_build)] if compiled else []))


def make_for_compose(engine):
    """What compose.yaml asks for."""
    fetch_servers()
    _, _, postgres, kafka = names()
    make_missing(engine, [(postgres, make_postgres), (kafka, make_kafka)])


def make_missing(engine, images):
    for name, make in images:
        if not engine.docker("images", "--quiet", name).strip():
            print(f"   stand-in for {name}", flush=True)
            make(engine, name)


def make_runtime(engine, name):
    with packages(RUNTIME) as root:
        authorities(root)
        imported(engine, root, name, "USER 65532", "ENV PATH=/usr/local/bin:/usr/bin:/bin")


def make_build(engine, name):
    """The toolchain of this machine, and the sources of the crates: the build asks no registry."""
    toolchain = pathlib.Path(output("rustc", "--print", "sysroot").strip())
    version = output("rustc", "--version").split()[1]
    wanted = name.split(":")[1].split("-")[0]
    if not version.startswith(wanted + "."):
        raise Missing(f"{name} is asked for, and the compiler here is {version}")
    with packages(BUILD) as root:
        authorities(root)
        for link, target in [("cc", "gcc"), ("c++", "g++"), ("awk", "mawk")]:
            link_to(root, f"usr/bin/{link}", target)
        for folder in ["bin", "lib"]:
            copy(toolchain / folder, root / "usr/local/rust" / folder)
        output("cargo", "vendor", "--locked", "--quiet", str(root / "usr/local/crates"), cwd=REPOSITORY)
        home = root / "usr/local/cargo"
        home.mkdir(parents=True)
        (home / "config.toml").write_text(CARGO)
        path = "/usr/local/cargo/bin:/usr/local/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        imported(engine, root, name, "ENV CARGO_HOME=/usr/local/cargo", f"ENV PATH={path}", "CMD bash")


def make_postgres(engine, name):
    """The server that the tests run; psql and pg_isready are Debian's, whose version is older."""
    major = name.split(":")[1].split(".")[0]
    with packages(f"{SHELL},libstdc++6,postgresql-client,tzdata") as root:
        copy(postgres_home(major), root / "usr/local/pgsql")
        client = next((root / "usr/lib/postgresql").glob("*/bin"))
        for program in ["psql", "pg_isready"]:
            link_to(root, f"usr/local/bin/{program}", f"/{(client / program).relative_to(root)}")
        entrypoint = script(root, "postgres-entrypoint.sh", "usr/local/bin/docker-entrypoint.sh")
        (root / "docker-entrypoint-initdb.d").mkdir()
        imported(engine, root, name, f"ENTRYPOINT [\"{entrypoint}\"]", "CMD [\"postgres\"]",
                 f"ENV PGDATA=/var/lib/postgresql/{major}/docker", "VOLUME /var/lib/postgresql",
                 "ENV PATH=/usr/local/bin:/usr/local/pgsql/bin:/usr/sbin:/usr/bin:/sbin:/bin")


def make_kafka(engine, name):
    version = name.split(":")[1]
    home = user_cache() / f"kafka-tools-{version}"
    if not home.exists():
        raise Missing(f"{name} is asked for, and the tests run another version")
    with packages(f"{SHELL},openjdk-17-jre-headless") as root:
        copy(home / "libs", root / "opt/kafka/libs")
        copy(home / "log4j2.xml", root / "opt/kafka/log4j2.xml")
        java = next((root / "usr/lib/jvm").glob("java-17-openjdk-*/bin/java"))
        link_to(root, "usr/local/bin/java", f"/{java.relative_to(root)}")
        entrypoint = script(root, "kafka-entrypoint.sh", "__cacert_entrypoint.sh")
        for tool in ["kafka-broker-api-versions.sh", "kafka-console-consumer.sh"]:
            script(root, "kafka-tool.sh", f"opt/kafka/bin/{tool}")
        imported(engine, root, name, f"ENTRYPOINT [\"{entrypoint}\"]", "USER appuser",
                 "ENV PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


@contextlib.contextmanager
def packages(include):
    """A folder with the files of Debian packages and of all that they need. No script of a package runs."""
    with tempfile.TemporaryDirectory(prefix="outboxd-image-") as folder:
        root = pathlib.Path(folder) / "root"
        output("mmdebstrap", "--quiet", "--variant=extract", f"--include={include}", SUITE, str(root))
        for folder in ["var/cache/apt", "var/lib/apt", "usr/share/doc", "usr/share/man"]:
            shutil.rmtree(root / folder, ignore_errors=True)
        (root / "etc/passwd").write_text(PASSWD)
        (root / "etc/group").write_text(re.sub(r"^(\w+):x:\d+:(\d+):.*$", r"\1:x:\2:", PASSWD, flags=re.MULTILINE))
        yield root


def imported(engine, root, name, *changes):
    tar = subprocess.Popen(["tar", "-C", root, "--exclude=./dev/*", "-c", "."], stdout=subprocess.PIPE)
    options = [option for change in changes for option in ("--change", change)]
    engine.docker("import", *options, "-", name, stdin=tar.stdout)
    if tar.wait() != 0:
        raise RuntimeError(f"tar of {name}: exit {tar.returncode}")


def authorities(root):
    """As the script of the package ca-certificates does."""
    bundle = root / "etc/ssl/certs/ca-certificates.crt"
    bundle.parent.mkdir(parents=True, exist_ok=True)
    files = sorted((root / "usr/share/ca-certificates").rglob("*.crt"))
    bundle.write_text("".join(file.read_text() for file in files))


def script(root, name, place):
    target = root / place
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(HERE / "stand_ins" / name, target)
    target.chmod(0o755)
    return f"/{place}"


def link_to(root, place, target):
    (root / place).parent.mkdir(parents=True, exist_ok=True)
    (root / place).symlink_to(target)


def copy(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    output("cp", "--archive", "--no-target-directory", str(source), str(target))


def fetch_servers():
    """The tests fetch what they run; after them this does nothing."""
    major = names()[2].split(":")[1].split(".")[0]
    if not postgres_home(major).exists() or not list(user_cache().glob("kafka-tools-*/libs")):
        print("   fetching PostgreSQL and Kafka: cargo test --test e2e servers::", flush=True)
        output("cargo", "test", "--locked", "--quiet", "--test", "e2e", "servers::", cwd=REPOSITORY)
    if not postgres_home(major).exists():
        raise Missing(f"the tests run an installed PostgreSQL {major}; a stand-in needs the fetched one")


def postgres_home(major):
    """Root's servers run under another account, which cannot look into root's home."""
    cache = pathlib.Path("/var/cache/outboxd") if os.geteuid() == 0 else user_cache()
    return cache / f"postgresql-{major}"


def user_cache():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "outboxd"


def output(*command, cwd=None):
    result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout
