"""The servers of a recording: PostgreSQL, a Kafka Connect worker with Debezium, its broker, and a broker for outboxd.

Each one whose address is in the environment is taken from there; the others are fetched from Maven Central with
pom.xml, kept in a cache, and run for as long as the command does.
"""

import contextlib
import os
import pathlib
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from dataclasses import dataclass

import connector

HERE = pathlib.Path(__file__).parent
POMS = {"pom.xml": HERE / "pom.xml", "avro.xml": HERE.parent / "golden/avro/pom.xml"}
"""What is fetched: the servers, and Apicurio's converter, whose Avro is Confluent's."""
CLUSTER_ID = "b3V0Ym94ZC1yZWNvcmRlcg"
START_SECONDS = 90

LOG4J2 = """<Configuration><Appenders><File name="F" fileName="${sys:log.file}"><PatternLayout
pattern="%d %p %c{1} %m%n"/></File></Appenders><Loggers><Root level="warn"><AppenderRef ref="F"/></Root></Loggers>
</Configuration>"""


@dataclass(frozen=True)
class Addresses:
    """Where the servers are."""

    pg: str
    """libpq URL of a superuser's server with wal_level=logical, without a database."""
    kafka: str
    """The Connect worker's broker. Everything on it is deleted."""
    connect: str
    """The Connect worker's REST address."""
    relay_kafka: str
    """outboxd's broker. Everything on it is deleted."""
    debezium: str = ""
    """What recordings say of the worker's Debezium, where that is more than its version."""

    VARIABLES = ("PG", "KAFKA", "CONNECT", "RELAY_KAFKA")

    def exports(self):
        values = (self.pg, self.kafka, self.connect, self.relay_kafka)
        return "\n".join(f"export {name}={value}" for name, value in zip(self.VARIABLES, values))


@contextlib.contextmanager
def running(version=None):
    """The addresses of servers that run until the end of the block. With a version the worker is always started here."""
    given = [os.environ.get(name) for name in Addresses.VARIABLES]
    given[2] = None if version else given[2]
    with contextlib.ExitStack() as stack:
        if all(given):
            yield Addresses(*given)
            return
        folder = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="outboxd-debezium-")))
        folder.chmod(0o755)
        home = fetched()
        pg = given[0] or stack.enter_context(postgresql(home, folder))
        kafka = given[1] or stack.enter_context(broker(home, folder / "kafka"))
        relay_kafka = given[3] or stack.enter_context(broker(home, folder / "relay-kafka"))
        if given[2]:
            yield Addresses(pg, kafka, given[2], relay_kafka)
            return
        plugin = debezium(version)
        connect = stack.enter_context(worker(home, folder / "connect", kafka, plugin))
        yield Addresses(pg, kafka, connect, relay_kafka, plugin.name)


def cache():
    root = pathlib.Path("/var/cache") if os.geteuid() == 0 else pathlib.Path.home() / ".cache"
    return root / "outboxd"


def debezium(version=None):
    """The connector, by default in the version whose bytes outboxd's are."""
    return connector.fetched(cache(), version or connector.reference_version())


def fetched():
    """The folder with `libs`, `plugins` and `postgresql`, filled once for each state of the POMs."""
    poms = {name: path.read_bytes() for name, path in POMS.items()}
    home = cache() / "debezium-recorder"
    if all((home / name).exists() and (home / name).read_bytes() == pom for name, pom in poms.items()):
        return home
    partial = home.with_suffix(".partial")
    for stale in (partial, home):
        shutil.rmtree(stale, ignore_errors=True)
    partial.mkdir(parents=True)
    for name, pom in poms.items():
        (partial / name).write_bytes(pom)
    maven = ["mvn", "-q", "-B", "-Dstyle.color=never"]
    subprocess.run([*maven, "package"], cwd=partial, check=True)
    avro = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={partial / 'plugins/avro'}"]
    subprocess.run([*maven, "-f", "avro.xml", *avro], cwd=partial, check=True)
    archive = next((partial / "postgresql").glob("*.txz"))
    subprocess.run(["tar", "xJf", archive.name], cwd=archive.parent, check=True)
    archive.unlink()
    partial.rename(home)
    return home


@contextlib.contextmanager
def postgresql(home, folder):
    data, port, binaries = folder / "postgresql", free_port(), home / "postgresql/bin"
    data.mkdir()
    user = unprivileged_user()
    if user:
        shutil.chown(data, user)
    as_user = ["setpriv", f"--reuid={user}", "--clear-groups", "env", "LC_ALL=C"] if user else []
    initdb = [binaries / "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale"]
    subprocess.run(as_user + initdb, check=True, stdout=subprocess.DEVNULL, cwd="/")
    options = {
        "port": port, "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "wal_level": "logical",
        "max_wal_senders": 40, "max_replication_slots": 40, "fsync": "off", "max_connections": 200,
    }
    server = [binaries / "postgres", "-D", data] + [f"--{name}={value}" for name, value in options.items()]
    with process(as_user + server, folder / "postgresql.log", cwd="/"):
        wait_for_port(port)
        yield f"postgres://postgres@127.0.0.1:{port}"


@contextlib.contextmanager
def broker(home, folder):
    folder.mkdir()
    port, controller = free_port(), free_port()
    (folder / "server.properties").write_text(f"""
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
controller.listener.names=CONTROLLER
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
log.dirs={folder / "data"}
num.partitions=3
offsets.topic.replication.factor=1
offsets.topic.num.partitions=1
group.initial.rebalance.delay.ms=0
log.cleaner.dedupe.buffer.size=4194304
log.retention.ms=-1
""")
    format_storage = java(home, folder, "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", "server.properties")
    subprocess.run(format_storage, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    with process(java(home, folder, "kafka.Kafka", "server.properties"), folder / "out.log", cwd=folder):
        wait_for_port(port)
        yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def worker(home, folder, kafka, debezium):
    """A standalone worker: it keeps nothing, and starts connectors without a rebalance."""
    folder.mkdir()
    address = f"http://127.0.0.1:{free_port()}"
    (folder / "worker.properties").write_text(f"""
bootstrap.servers={kafka}
key.converter=org.apache.kafka.connect.json.JsonConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
offset.storage.file.filename={folder / "offsets"}
offset.flush.interval.ms=1000
plugin.path={",".join(plugins(home, debezium))}
plugin.discovery=hybrid_warn
listeners={address}
""")
    command = java(home, folder, "org.apache.kafka.connect.cli.ConnectStandalone", "worker.properties")
    with process(command, folder / "out.log", cwd=folder):
        wait_until(lambda: answers(f"{address}/connector-plugins"), address)
        yield address


def plugins(home, debezium):
    """Folders of plugins; $CONFLUENT has Confluent's converters, with all that they need, in a folder of their own."""
    return [str(debezium.folder), str(home / "plugins"), *filter(None, [os.environ.get("CONFLUENT")])]


def java(home, folder, *arguments):
    (folder / "log4j2.xml").write_text(LOG4J2)
    logging = ["-Dlog4j2.configurationFile=log4j2.xml", f"-Dlog.file={folder / 'server.log'}"]
    return ["java", "-Xmx1g", "-XX:+UseSerialGC", *logging, "-cp", str(home / "libs/*"), *arguments]


@contextlib.contextmanager
def process(command, log, cwd):
    with open(log, "w") as output:
        child = subprocess.Popen(command, stdout=output, stderr=output, cwd=cwd)
    try:
        yield child
    finally:
        child.terminate()
        try:
            child.wait(30)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def unprivileged_user():
    """PostgreSQL refuses to run as root; the account that it may run as instead, when we are root."""
    if os.geteuid() != 0:
        return None
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def wait_for_port(port):
    def is_open():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
        return False

    wait_until(is_open, f"port {port}")


def answers(address):
    with contextlib.suppress(OSError), urllib.request.urlopen(address, timeout=5) as response:
        return response.status == 200
    return False


def wait_until(condition, what):
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} did not come up")
        time.sleep(0.2)
