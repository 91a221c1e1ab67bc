"""The two that are compared: a connector in a Kafka Connect worker, and an outboxd process."""

import json
import os
import pathlib
import shlex
import signal
import subprocess
import tempfile

import requests

HTTP_SECONDS = 30
STOP_SECONDS = 40


class Debezium:
    """A connector. Connect keeps offsets by name, so each has a new one."""

    def __init__(self, connect, name):
        self.connect, self.name = connect, name

    def start(self, config):
        # Metrics beans are named by topic.prefix, which many cases share.
        config = {**config, "name": self.name, "tasks.max": "1", "custom.metric.tags": f"case={self.name}",
                  "errors.log.enable": "true"}
        answer = self._request("put", "/config", json=config)
        self.refusal = None if answer.ok else answer.json().get("message", answer.text)

    def failure(self):
        """Why it does not run, or None."""
        if self.refusal:
            return self.refusal
        status = self._request("get", "/status")
        if not status.ok:
            return None
        parts = [*status.json()["tasks"], status.json()["connector"]]
        traces = [part.get("trace") or "FAILED" for part in parts if part["state"] == "FAILED"]
        return root_cause(traces[0]) if traces else None

    def stop(self):
        self._request("delete", "")

    def version(self):
        plugins = requests.get(f"{self.connect}/connector-plugins", timeout=HTTP_SECONDS).json()
        return next(plugin["version"] for plugin in plugins if plugin["class"].endswith("PostgresConnector"))

    def options(self):
        """Returns (name, type, default) of each option that the connector declares."""
        connector = "io.debezium.connector.postgresql.PostgresConnector"
        answer = requests.get(f"{self.connect}/connector-plugins/{connector}/config", timeout=HTTP_SECONDS).json()
        return [(option["name"], option["type"], option["default_value"] or "") for option in answer]

    def worker_version(self):
        return requests.get(self.connect, timeout=HTTP_SECONDS).json()["version"]

    def _request(self, method, path, **arguments):
        return requests.request(method, f"{self.connect}/connectors/{self.name}{path}", timeout=HTTP_SECONDS, **arguments)


class Outboxd:
    """A process of $RELAY, by default the release build."""

    def __init__(self, bootstrap):
        self.bootstrap, self.process = bootstrap, None

    def start(self, config):
        self.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.folder.name)
        (path / "config.json").write_text(json.dumps({**config, "bootstrap.servers": self.bootstrap}))
        command = shlex.split(os.environ.get("RELAY", "target/release/outboxd"))
        self.log = path / "log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([*command, "run", "-c", path / "config.json"], stdout=log, stderr=log)

    def failure(self):
        """Why it ended, or None."""
        if self.process.poll() is None:
            return None
        return f"exit {self.process.returncode}: {self.errors()}"

    def errors(self):
        """What it has logged as a warning or an error."""
        events = [json.loads(line) if line.startswith("{") else {"level": "ERROR", "message": line}
                  for line in self.text().rpartition("\n")[0].splitlines()]
        errors = [f"{event['message']} {event.get('error', '')}" for event in events
                  if event["level"] in ("ERROR", "WARN") and not event["message"].startswith("not used")]
        return " / ".join(errors)

    def exit_code(self):
        """None while it runs."""
        return self.process.poll()

    def text(self):
        return self.log.read_text()

    def stop(self):
        if not self.process:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.folder.cleanup()


def root_cause(trace):
    causes = [line.removeprefix("Caused by: ") for line in trace.splitlines() if line.startswith("Caused by: ")]
    return (causes or trace.splitlines())[-1 if causes else 0]
