"""A database of its own for each case."""

import contextlib

import psycopg2


class Database:
    def __init__(self, server, name):
        self.server, self.name = server, name

    def create(self):
        self.drop()
        execute(self.server, "postgres", f"CREATE DATABASE {self.name}")

    def drop(self):
        for slot in self.query("postgres", f"SELECT slot_name FROM pg_replication_slots WHERE database = '{self.name}'"):
            self.drop_slot(slot[0])
        execute(self.server, "postgres", f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)")

    def drop_slot(self, name):
        """Of whoever holds it."""
        for _ in range(10):
            self.query("postgres", f"""SELECT pg_terminate_backend(active_pid, 2000) FROM pg_replication_slots
                                       WHERE slot_name = '{name}' AND active""")
            with contextlib.suppress(psycopg2.errors.ObjectInUse, psycopg2.errors.UndefinedObject):
                self.query("postgres", f"SELECT pg_drop_replication_slot('{name}')")
                return

    def execute(self, sql):
        """One simple query: all in one transaction, unless it says otherwise."""
        execute(self.server, self.name, sql)

    def is_streaming(self, slot):
        """While a slot is being made it is active, but has no position, and nothing is streamed yet."""
        return bool(self.query("postgres", f"""SELECT FROM pg_replication_slots WHERE slot_name = '{slot}'
                                               AND active AND confirmed_flush_lsn IS NOT NULL"""))

    def current_lsn(self):
        return self.query("postgres", "SELECT pg_current_wal_lsn()")[0][0]

    def is_confirmed(self, slot, lsn):
        return bool(self.query("postgres", f"""SELECT FROM pg_replication_slots WHERE slot_name = '{slot}'
                                               AND confirmed_flush_lsn >= '{lsn}'"""))

    def version(self):
        return self.query("postgres", "SHOW server_version")[0][0].split()[0]

    def query(self, database, sql):
        with connected(self.server, database) as cursor:
            cursor.execute(sql)
            return cursor.fetchall()

    def address(self):
        """What a connector needs to find it."""
        parts = psycopg2.extensions.parse_dsn(self.server)
        return {
            "database.hostname": parts["host"], "database.port": parts["port"], "database.user": parts["user"],
            "database.password": parts.get("password", "none"), "database.dbname": self.name,
        }


def execute(server, database, sql):
    if not sql.strip():
        return
    with connected(server, database) as cursor:
        cursor.execute(sql)


@contextlib.contextmanager
def connected(server, database):
    connection = psycopg2.connect(f"{server}/{database}")
    connection.autocommit = True
    try:
        with connection.cursor() as cursor:
            yield cursor
    finally:
        connection.close()
