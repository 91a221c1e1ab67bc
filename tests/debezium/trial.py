"""One case, run through Debezium or through both."""

import concurrent.futures
import contextlib
import time
import uuid
from dataclasses import dataclass, field, replace

import psycopg2

import case_file
import registered_text
import volatile
from broker import Broker
from database import Database
from registry import ADDRESS, Registry
from systems import Debezium, Outboxd

START_SECONDS = 120
DRAIN_SECONDS = 90
SILENCE_SECONDS = 8
SETTLE_SECONDS = 0.6

BASE = {
    "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
    "topic.prefix": "srv", "plugin.name": "pgoutput", "publication.autocreate.mode": "filtered",
    "snapshot.mode": "no_data", "table.include.list": "public.outbox", "tombstones.on.delete": "false",
    "transforms": "outbox", "transforms.outbox.type": "io.debezium.transforms.outbox.EventRouter",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "poll.interval.ms": "50",
}


TABLES = {
    **{key: value for key, value in BASE.items() if not key.startswith(("transforms", "table."))},
    **dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.json.JsonConverter"),
    **dict.fromkeys(("key.converter.schemas.enable", "value.converter.schemas.enable"), "false"),
}
"""The same without an outbox: all tables, as JSON without schemas."""


@dataclass
class Run:
    records: list
    """As a case writes them."""
    failure: str | None
    exit: int | None = None
    """outboxd's, when it ended by itself."""
    errors: str = ""
    """What outboxd has warned of."""
    subjects: dict = field(default_factory=dict)
    """The schemas that were registered: the texts of each subject, in order."""


class Trials:
    """Runs cases on these servers."""

    def __init__(self, addresses):
        self.addresses = addresses
        self.kafka, self.relay_kafka = Broker(addresses.kafka), Broker(addresses.relay_kafka)

    def versions(self):
        database, worker = Database(self.addresses.pg, "postgres"), Debezium(self.addresses.connect, "")
        return (f"recorded from Debezium {self.addresses.debezium or worker.version()}, Kafka Connect {worker.worker_version()}, "
                f"PostgreSQL {database.version()}")

    def version(self):
        return Debezium(self.addresses.connect, "").version()

    def record(self, case):
        """What Debezium makes of a case, alone with its broker."""
        self.kafka.delete()
        return self._run(case, "", debezium=True)[0]

    def compare(self, case, tag):
        """What both make of it. Every topic of the case holds the tag."""
        return self._run(case, tag, debezium=True, outboxd=True)

    def _run(self, case, tag, debezium=False, outboxd=False):
        name = f"debezium_{tag or 'record'}_{uuid.uuid4().hex[:8]}"
        database = Database(self.addresses.pg, name)
        database.create()
        sides = []
        if debezium:
            sides.append(Side(Debezium(self.addresses.connect, name), self.kafka, f"{name}_d"))
        if outboxd:
            sides.append(Side(Outboxd(self.addresses.relay_kafka), self.relay_kafka, f"{name}_o"))
        try:
            with contextlib.ExitStack() as stack:
                for side in sides:
                    side.address = stack.enter_context(side.registry.serving())
                return self._run_with(case, tag, database, sides)
        finally:
            for side in sides:
                side.system.stop()
                side.broker.delete(tag)
            database.drop()

    def _run_with(self, case, tag, database, sides):
        database.execute(case.schema)
        database.execute(case.before)
        started_ms = int(time.time() * 1000)
        for side in sides:
            side.broker.create(case.topics, case.partitions)
            side.system.start(config(case, database, side.slot, side.address))
        for side in sides:
            side.wait_until_streaming(database)
        for number, sql in enumerate(case.tx):
            if number == case.pause:
                self._wait_for(sides, tag, database, 0)
            with contextlib.suppress(*[psycopg2.Error] * case.lenient):
                database.execute(sql)
            for side in sides if case.waits else ():
                side.wait_until_done(tag, database, 0)
        self._wait_for(sides, tag, database, len(case.records))
        return [side.outcome(tag, started_ms, case.base == "tables" and not tag) for side in sides]


    def _wait_for(self, sides, tag, database, expected):
        for side in reversed(sides):
            side.wait_until_done(tag, database, expected)
            expected = max(expected, side.broker.count(tag))


class Side:
    """A system with its broker and its slot."""

    def __init__(self, system, broker, slot):
        self.system, self.broker, self.slot = system, broker, slot
        self.registry, self.address = Registry(), ""

    def wait_until_streaming(self, database):
        deadline = time.monotonic() + START_SECONDS
        while not database.is_streaming(self.slot) and not self.system.failure():
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.slot} does not stream")
            time.sleep(0.1)

    def wait_until_done(self, tag, database, expected):
        """outboxd confirms what it has sent. Debezium does so late, so it is done when it has sent what is expected,
        or has been silent for long."""
        target = database.current_lsn()
        deadline = time.monotonic() + DRAIN_SECONDS
        changed, last = time.monotonic(), -1
        while time.monotonic() < deadline and not self.system.failure():
            count = self.broker.count(tag)
            if count != last:
                changed, last = time.monotonic(), count
            silence = time.monotonic() - changed
            if isinstance(self.system, Outboxd):
                if database.is_confirmed(self.slot, target):
                    return
            elif silence > (SETTLE_SECONDS if 0 < expected <= count else SILENCE_SECONDS):
                return
            time.sleep(0.1)

    def outcome(self, tag, started_ms, tables):
        failure = self.system.failure()
        records = [case_file.as_expected(self.readable(record), started_ms) for record in self.broker.read(tag)]
        if tables:
            records = volatile.masked(records, started_ms)
        if isinstance(self.system, Debezium):
            return Run(records, failure, subjects=self.registry.subjects)
        return Run(records, failure, self.system.exit_code(), self.system.errors(), self.registry.subjects)

    def readable(self, record):
        """With the registry's schemas."""
        key, value = (registered_text.shown(data, self.registry.texts) for data in (record.key, record.value))
        return replace(record, key=key, value=value)


def config(case, database, slot, registry=""):
    """The connector's configuration: what every case shares, and the case's own."""
    base = TABLES if case.base == "tables" else BASE
    merged = {**base, **database.address(), "slot.name": slot, "publication.name": slot}
    merged |= case.config
    merged |= catalog_address(merged, database)
    merged = {key: value for key, value in merged.items() if value is not None}
    return {key: value.replace(ADDRESS, registry) if isinstance(value, str) else value for key, value in merged.items()}


def catalog_address(merged, database):
    """TimescaleDb reads the catalog over a connection of its own, in the same database."""
    of_transforms = (key.removesuffix("type") for key, value in merged.items() if str(value).endswith(".TimescaleDb"))
    return {owner + key: value for owner in of_transforms for key, value in database.address().items()}


def side_by_side(work, items, workers):
    """`work(item)` for all items, some at a time; (item, result) as each is done."""
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        futures = {pool.submit(work, item): item for item in items}
        for future in concurrent.futures.as_completed(futures):
            yield futures[future], future.result()
