"""python3 tests/container: see README.md beside this file."""

import argparse
import contextlib
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True

import compiled
import stand_ins
from compose import TOPIC, Compose, eventually, numbers_of
from engine import Engine, NoEngine, OwnEngine, answers, can_start

REPOSITORY = pathlib.Path(__file__).parents[2]
CONNECTOR = pathlib.Path(__file__).parent / "connector.json"
NOT_RUN = 77


class Trial:
    """The steps build on each other, so the first that fails ends it."""

    def __init__(self, engine, compose, binary):
        self.engine, self.compose, self.inserted, self.binary = engine, compose, 0, binary

    def the_image_is_built_by_the_dockerfile(self):
        began = time.monotonic()
        if self.binary:
            with tempfile.TemporaryDirectory(prefix="outboxd-context-") as context:
                subprocess.run(["strip", "-o", f"{context}/outboxd", self.binary], check=True)
                self.build(context, "BINARY=given")
        else:
            self.build(REPOSITORY, "PROFILE=quick")
        size = int(self.engine.docker("image", "inspect", "--format", "{{.Size}}", "outboxd")) / 1e6
        return f"{size:.0f} MB without optimisation, built in {time.monotonic() - began:.0f} s"

    def build(self, context, argument):
        network = ["--network", "none"] if self.engine.own else []
        dockerfile = REPOSITORY / "docker/Dockerfile"
        self.engine.docker("build", *network, "--build-arg", argument, "-f", str(dockerfile), "-t", "outboxd", str(context))

    def the_image_runs_as_nobody_and_has_no_shell(self):
        image = json.loads(self.engine.docker("image", "inspect", "outboxd"))[0]
        assert image["Config"]["User"] == "65532:65532", image["Config"]["User"]
        version = self.engine.docker("run", "--rm", "--network", "none", "outboxd", "--version").strip()
        shell = ["run", "--rm", "--network", "none", "--entrypoint", "/bin/sh", "outboxd", "-c", "echo has a shell"]
        if self.engine.own:
            assert "has a shell" not in self.engine.docker(*shell, check=False)
        return version

    def compose_becomes_healthy(self):
        self.compose("up", "--detach", "--no-build", "postgres", "kafka")
        for service in ["postgres", "kafka"]:
            eventually(f"{service} is healthy", lambda: self.compose.is_healthy(service), 600)
        began = time.monotonic()
        self.compose("up", "--detach", "--no-build")
        eventually("/readyz", lambda: self.compose.status("/readyz")[0] == 200)
        ready = time.monotonic() - began
        eventually("outboxd is healthy", lambda: self.compose.is_healthy("outboxd"))
        healthy = time.monotonic() - began
        return f"ready after {ready:.1f} s, healthy after {healthy:.1f} s"

    def the_relay_has_no_rights(self):
        inspected = self.compose.inspect("outboxd")
        host = inspected["HostConfig"]
        assert host["ReadonlyRootfs"] and host["CapDrop"] == ["ALL"], host
        status = pathlib.Path(f"/proc/{inspected['State']['Pid']}/status").read_text()
        for line in ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Uid:\t65532\t"]:
            assert line in status, f"{line}\n{status}"
        resident = int(re.search(r"VmHWM:\s+(\d+) kB", status)[1])
        return f"{resident / 1024:.0f} MiB resident at the most"

    def an_event_becomes_a_record(self):
        self.insert()
        [record] = self.all_records(TOPIC, 1)
        line = " ".join(record)
        event = self.compose.sql("SELECT id FROM outbox")
        for part in [f"id:{event}", "event_type:OrderCreated", "42", '{"number": 1}']:
            assert part in line, line
        return line

    def events_arrive_after_outboxd_is_killed(self):
        return self.after_a_kill("outboxd")

    def events_arrive_after_postgres_is_killed(self):
        return self.after_a_kill("postgres")

    def events_arrive_after_kafka_is_killed(self):
        return self.after_a_kill("kafka")

    def no_event_is_missing_or_out_of_order(self):
        numbers = numbers_of(self.all_records(TOPIC, self.inserted))
        first = list(dict.fromkeys(numbers))
        assert first == list(range(1, self.inserted + 1)), numbers
        return f"{self.inserted} events, {len(numbers) - len(first)} repeated"

    def a_stop_ends_with_exit_code_0(self):
        began = time.monotonic()
        self.compose("stop", "outboxd")
        seconds = time.monotonic() - began
        state = self.compose.inspect("outboxd")["State"]
        assert state["ExitCode"] == 0 and not state["OOMKilled"], state
        return f"in {seconds:.1f} s"

    def the_connector_json_of_the_article_runs(self):
        """Its host name, user and password are those of the article."""
        self.compose.sql("CREATE DATABASE orders_db")
        self.compose.sql("ALTER ROLE postgres PASSWORD 'password'")
        self.compose.sql(
            "CREATE TABLE outbox (id uuid PRIMARY KEY, aggregate_type varchar(255) NOT NULL, "
            "aggregate_id varchar(255) NOT NULL, event_type varchar(255) NOT NULL, payload jsonb NOT NULL, "
            "created_at timestamptz NOT NULL DEFAULT now(), processed_at timestamptz)", "orders_db")
        hardened = ["--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"]
        self.engine.docker(
            "run", "--detach", "--name", "article", "--network", self.compose.network(), *hardened,
            "--volume", f"{CONNECTOR}:/connector.json:ro",
            "outboxd", "run", "-c", "/connector.json", "-X", "bootstrap.servers=kafka:9092", "--http", "0.0.0.0:8080")
        state = ["inspect", "--format", "{{.State.Status}} {{if .State.Health}}{{.State.Health.Status}}{{end}}", "article"]
        try:
            eventually("it is healthy", lambda: self.engine.docker(*state).strip() == "running healthy")
            self.compose.sql(
                "INSERT INTO outbox (id, aggregate_type, aggregate_id, event_type, payload) "
                "VALUES (gen_random_uuid(), 'order', 'o-1', 'OrderCreated', '{\"id\": \"o-1\"}')", "orders_db")
            [record] = self.all_records("OrderCreated", 1)
            assert "o-1" in record[-2] and record[-1] == '{"id": "o-1"}', record
            self.engine.docker("stop", "--time", "30", "article")
            assert self.engine.docker("inspect", "--format", "{{.State.ExitCode}}", "article").strip() == "0"
        except BaseException:
            print(self.engine.docker("logs", "article", check=False))
            raise
        return " ".join(record)

    def insert(self):
        self.compose.insert(self.inserted + 1)
        self.inserted += 1

    def all_records(self, topic, at_least):
        """Of the topic, once there are so many."""
        records = []

        def are_there():
            records[:] = self.compose.records(topic)
            return len(records) >= at_least

        eventually(f"{at_least} records are in {topic}", are_there)
        return records

    def after_a_kill(self, service):
        """One event while it is away, if there is a database, and one when it is back."""
        self.compose.kill(service)
        if service != "postgres":
            self.insert()
        self.compose.start(service)
        eventually(f"{service} is healthy", lambda: self.compose.is_healthy(service))
        self.insert()
        seconds = eventually(f"event {self.inserted}", lambda: self.inserted in self.compose.numbers())
        restarts = self.compose.inspect("outboxd")["RestartCount"]
        return f"seen {seconds:.0f} s later, restarts of outboxd: {restarts}"


STEPS = [
    Trial.the_image_is_built_by_the_dockerfile,
    Trial.the_image_runs_as_nobody_and_has_no_shell,
    Trial.compose_becomes_healthy,
    Trial.the_relay_has_no_rights,
    Trial.an_event_becomes_a_record,
    Trial.events_arrive_after_outboxd_is_killed,
    Trial.events_arrive_after_postgres_is_killed,
    Trial.events_arrive_after_kafka_is_killed,
    Trial.no_event_is_missing_or_out_of_order,
    Trial.a_stop_ends_with_exit_code_0,
    Trial.the_connector_json_of_the_article_runs,
]


def main():
    arguments = argparse.ArgumentParser(prog="python3 tests/container")
    arguments.add_argument("--running", action="store_true", help="use the engine that runs, with the official images")
    arguments.add_argument("--data", metavar="FOLDER", help="keep images and build caches of the own engine here")
    arguments.add_argument("--binary", metavar="FILE", help="put this binary into the image instead of compiling one")
    arguments.add_argument("--compile", action="store_true",
                           help="only compile the image, unless docker/compiled.sha256 names what it is made from")
    options = arguments.parse_args()
    if options.compile and compiled.is_recorded():
        print(f"   what the image is made from was compiled before: {compiled.RECORD.relative_to(REPOSITORY)}")
        return 0
    steps = STEPS[:1] if options.compile else STEPS
    try:
        with engine(options) as (chosen, images):
            print(f"   images: {images}", flush=True)
            if chosen.own:
                stand_ins.make_for_build(chosen, compiled=not options.binary)
            if chosen.own and not options.compile:
                stand_ins.make_for_compose(chosen)
            failed = run(chosen, steps, options.binary)
            if not failed and not options.binary:
                compiled.record()
            return failed
    except (NoEngine, stand_ins.Missing) as reason:
        print(f"THE CONTAINER IS NOT TESTED HERE: {reason}")
        return NOT_RUN


@contextlib.contextmanager
def engine(options):
    if can_start() and not options.running:
        with OwnEngine(options.data) as own:
            yield own, "stand-ins made here, because images cannot be pulled everywhere"
    elif answers():
        yield Engine(), "the official ones"
    else:
        raise NoEngine("no engine runs, and none can be started (that takes root and dockerd)")


def run(chosen, steps, binary):
    """Ends with a line like cargo's, so that the passed and failed steps are counted with the other tests."""
    compose = Compose(chosen)
    trial = Trial(chosen, compose, binary)
    passed = failed = 0
    clear(chosen, compose)
    try:
        for step in steps:
            said = attempt(step, trial)
            failed += said is None
            passed += said is not None
            if said is None:
                break
            print(f"test container::{step.__name__} ... ok ({said})", flush=True)
    finally:
        clear(chosen, compose)
    print(f"test result: {'FAILED' if failed else 'ok'}. {passed} passed; {failed} failed; "
          f"{len(steps) - passed - failed} not reached")
    return 1 if failed else 0


def clear(chosen, compose):
    """Also what an interrupted run has left in an engine that stays."""
    chosen.docker("rm", "--force", "article", check=False)
    compose("down", "--volumes", "--timeout", "5", check=False)


def attempt(step, trial):
    """What the step has to say; nothing when it failed, which is told at once."""
    try:
        return step(trial) or ""
    except Exception:
        print(f"test container::{step.__name__} ... FAILED")
        traceback.print_exc(file=sys.stdout)
        print(trial.compose.logs(), flush=True)
        return None


if __name__ == "__main__":
    sys.exit(main())
