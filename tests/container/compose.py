"""docker/compose.yaml as a user starts it, and what can be seen of it from outside."""

import json
import pathlib
import re
import socket
import time

FILE = pathlib.Path(__file__).parents[2] / "docker/compose.yaml"
PROJECT = "outboxd-test"
TOPIC = "outbox.event.order"
# Of the parts of a record, as the consumer prints it.
BETWEEN = " <|> "


class Compose:
    """The ports on this machine are free ones, so that nothing else is in the way."""

    def __init__(self, engine):
        self._engine = engine
        self.status_port = free_port()
        self._environment = {
            "OUTBOXD_POSTGRES_PORT": str(free_port()),
            "OUTBOXD_KAFKA_PORT": str(free_port()),
            "OUTBOXD_STATUS_PORT": str(self.status_port),
        }

    def __call__(self, *arguments, **options):
        return self._engine.compose(FILE, PROJECT, *arguments, environment=self._environment, **options)

    def container(self, service):
        """Asks the engine, here and below: each call of the first generation of Compose takes a second of a core."""
        labels = {"project": PROJECT, "service": service}
        filters = [f"--filter=label=com.docker.compose.{name}={value}" for name, value in labels.items()]
        return self._engine.docker("ps", "--all", "--quiet", *filters).strip()

    def execute(self, service, *command, **options):
        return self._engine.docker("exec", self.container(service), *command, **options)

    def inspect(self, service):
        return json.loads(self._engine.docker("inspect", self.container(service)))[0]

    def health(self, service):
        state = self.inspect(service)["State"]
        return state["Health"]["Status"] if state["Running"] else f"exited with {state['ExitCode']}"

    def is_healthy(self, service):
        health = self.health(service)
        assert not health.startswith("exited"), f"{service} {health}"
        return health == "healthy"

    def network(self):
        return f"{PROJECT}_default"

    def kill(self, service):
        self._engine.docker("kill", self.container(service))

    def start(self, service):
        self._engine.docker("start", self.container(service))

    def sql(self, statement, database="orders"):
        command = ["psql", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1"]
        return self.execute("postgres", *command, "-U", "postgres", "-d", database, "-c", statement).strip()

    def insert(self, number):
        """An event whose payload tells which one it is."""
        self.sql("INSERT INTO outbox (aggregate_type, aggregate_id, event_type, payload) "
                 f"VALUES ('order', '42', 'OrderCreated', '{{\"number\": {number}}}')")

    def records(self, topic, seconds=5):
        """Headers, key and value of the records, until none has come for some seconds: on a busy machine it may be too early
        for some or all. The tool's own log is left out."""
        command = ["/opt/kafka/bin/kafka-console-consumer.sh", "--bootstrap-server", "kafka:9092"]
        lines = self.execute("kafka", *command, "--topic", topic, "--from-beginning", "--timeout-ms", str(seconds * 1000),
                             "--formatter-property", "print.key=true", "--formatter-property", "print.headers=true",
                             "--formatter-property", f"key.separator={BETWEEN}",
                             "--formatter-property", f"headers.separator={BETWEEN}", check=False)
        return [tuple(line.split(BETWEEN)) for line in lines.splitlines() if BETWEEN in line]

    def numbers(self, topic=TOPIC):
        """Of the events that have arrived, in the order of the records."""
        return numbers_of(self.records(topic))

    def status(self, path):
        """The status code and the body at the published port."""
        return self._engine.get(f"http://127.0.0.1:{self.status_port}{path}")

    def logs(self):
        return self("logs", "--no-color", "--tail", "60", check=False)


def numbers_of(records):
    found = [re.search(r'"number": (\d+)', record[-1]) for record in records]
    return [int(match[1]) for match in found if match]


def eventually(what, condition, seconds=120):
    """Returns how long it took."""
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > seconds:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.3)
    return time.monotonic() - began


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]
