"""Starts outboxd as systemd does, with a socket and a password as a credential, and without servers: notify.py FOLDER BINARY"""

import pathlib
import os
import socket
import subprocess
import sys

CONFIG = """name=orders
topic.prefix=orders
database.hostname=127.0.0.1
database.port=1
database.user=outboxd
database.password=${dir:%s:password}
database.dbname=orders
slot.name=orders
table.include.list=public.outbox
transforms=outbox
transforms.outbox.type=io.debezium.transforms.outbox.EventRouter
bootstrap.servers=127.0.0.1:1
outboxd.startup.timeout.ms=1500
"""
# PostgreSQL, or Kafka, cannot be reached: the unit starts it again.
EXITS = [4, 5]


def main():
    folder, binary = pathlib.Path(sys.argv[1]), sys.argv[2]
    credentials = folder / "credentials"
    credentials.mkdir()
    (credentials / "password").write_text("secret\n")
    (folder / "orders.properties").write_text(CONFIG % credentials)
    path = str(folder / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(path)
        reader.settimeout(60)
        environment = os.environ | {"NOTIFY_SOCKET": path, "WATCHDOG_USEC": "300000"}
        command = [binary, "run", "-c", str(folder / "orders.properties")]
        process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
        first = reader.recv(4096).decode()
        second = reader.recv(4096).decode()
        _, log = process.communicate(timeout=60)
    assert first.startswith("EXTEND_TIMEOUT_USEC=60000000\nWATCHDOG=1\nSTATUS="), first
    assert "WATCHDOG=1\n" in second and "READY=1" not in first + second, second
    assert process.returncode in EXITS, (process.returncode, log)
    assert "secret" not in log
    print("ok: the binary reports its start to the socket, and reads a credential")


main()
