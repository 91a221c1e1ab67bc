"""The container engine that the test uses: one of its own where it may start one, otherwise the one that runs."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

# For each command. An image that is built beside other tests has what they leave of the machine.
COMMAND_SECONDS_MAX = 3600


class NoEngine(Exception):
    """No engine can be had here; the text says why."""


class Engine:
    """`docker` and `docker compose` against one engine."""

    def __init__(self, host=None, network_of=None):
        """Without a host: the engine that runs. `network_of` is the process whose network an engine of our own has."""
        self.own = host is not None
        self._enter = ["nsenter", "--target", str(network_of), "--net"] if network_of else []
        self._environment = dict(os.environ, DOCKER_BUILDKIT="1", BUILDKIT_PROGRESS="plain", COMPOSE_IGNORE_ORPHANS="1")
        if host:
            self._environment["DOCKER_HOST"] = host
        self._docker = self._client()
        self._compose = self._compose_client()

    def docker(self, *arguments, **options):
        return self._run([self._docker, *arguments], **options)

    def compose(self, file, project, *arguments, environment=None, **options):
        """The first generation of Compose knows no `name:` at the top, so it gets the file without that line."""
        text = "".join(line for line in file.read_text().splitlines(True) if not line.startswith("name:"))
        command = [*self._compose, "--project-name", project, "--project-directory", str(file.parent), "--file", "-"]
        environment = {**self._environment, **(environment or {})}
        return self._run([*command, *arguments], input=text, cwd=file.parent, environment=environment, **options)

    def get(self, url):
        """The status code and the body, from where the published ports are."""
        command = [*self._enter, "curl", "--silent", "--max-time", "5", "--write-out", "\n%{http_code}", url]
        body, _, code = self._run(command, check=False).rpartition("\n")
        return int(code or 0), body

    def _run(self, command, check=True, input=None, stdin=subprocess.DEVNULL, cwd=None, environment=None):
        """What it wrote to standard output."""
        feed = {"stdin": stdin} if input is None else {"input": input}
        result = subprocess.run(command, **feed, cwd=cwd, timeout=COMMAND_SECONDS_MAX, text=True, env=environment or self._environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if check and result.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: exit {result.returncode}\n{result.stdout}\n{result.stderr}")
        return result.stdout

    def _client(self):
        """BuildKit is part of the engine; a client from version 23 on asks it through the plugin buildx."""
        clients = [path for folder in os.environ["PATH"].split(":") if (path := shutil.which("docker", path=folder))]
        for client in clients:
            version = subprocess.run([client, "--version"], capture_output=True, text=True).stdout
            old = int(version.split("version ")[1].split(".")[0]) < 23
            if old or subprocess.run([client, "buildx", "version"], capture_output=True).returncode == 0:
                return client
        raise NoEngine("no docker client here can build with BuildKit (the Debian package docker.io has one)")

    def _compose_client(self):
        if subprocess.run([self._docker, "compose", "version"], capture_output=True).returncode == 0:
            return [self._docker, "compose"]
        if shutil.which("docker-compose"):
            return ["docker-compose"]
        raise NoEngine("neither `docker compose` nor docker-compose is here (a Debian package has its name)")


# Brings the loopback device of a new network namespace up (SIOCSIFFLAGS, IFF_UP), then becomes the engine.
LOOPBACK_UP = """import fcntl, os, socket, struct, sys
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 1))
os.execvp(sys.argv[1], sys.argv[1:])
"""


class OwnEngine:
    """A dockerd in a folder and a network of its own, gone with everything in it at the end. Neither the machine's firewall
    nor its ports matter to it, and no container reaches the outside."""

    def __init__(self, root=None):
        self._keep = root is not None
        self._root = pathlib.Path(root or tempfile.mkdtemp(prefix="outboxd-engine-"))
        self._root.mkdir(parents=True, exist_ok=True)
        self.host = f"unix://{self._root}/docker.sock"
        self._process = None

    def __enter__(self):
        command = ["unshare", "--net", "python3", "-c", LOOPBACK_UP, "dockerd", "--host", self.host, "--data-root", str(self._root / "data"),
                   "--exec-root", str(self._root / "exec"), "--pidfile", str(self._root / "pid"),
                   "--bridge", "none", "--iptables=false", "--ip6tables=false", "--ip-masq=false"]
        with open(self._root / "dockerd.log", "w") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             start_new_session=True)
        try:
            self._wait()
            return Engine(self.host, network_of=self._process.pid)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if not self._keep:
            shutil.rmtree(self._root, ignore_errors=True)

    def _wait(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                break
            if answers(self.host):
                return
            time.sleep(0.2)
        last = (self._root / "dockerd.log").read_text().strip().splitlines()[-3:]
        raise NoEngine("dockerd does not start here:\n" + "\n".join(last))


def answers(host=None):
    environment = dict(os.environ, **({"DOCKER_HOST": host} if host else {}))
    if not shutil.which("docker"):
        return False
    command = ["docker", "info", "--format", "{{.ServerVersion}}"]
    return subprocess.run(command, env=environment, capture_output=True, timeout=60).returncode == 0


def can_start():
    return os.geteuid() == 0 and shutil.which("dockerd") is not None
