"""Random changes of random tables."""

import dataclasses

from change_tables import IDS, TYPES, extra, large_value
from tables import Column, identifier, literal
from workload import DEFAULT, value_sql


class Changes:
    """The changes of one table, in order."""

    def __init__(self, rng, table):
        self.rng, self.table = rng, table
        self.live, self.next = [], 1
        """Numbers of the rows that are there, and of the next one."""

    def step(self):
        """Some statements."""
        if not self.live or not self.table.changeable():
            return self.insert(self.rng.choice([1, 1, 2, 3]))
        steps = [self.insert, self.insert, self.update, self.update, self.update, self.update_all, self.unchanged, self.move,
                 self.delete, self.insert_and_delete]
        if self.rng.random() < 0.1:
            steps = [self.truncate, self.widen]
        return self.rng.choice(steps)()

    def insert(self, count=1):
        rows = [self._row() for _ in range(count)]
        names = ", ".join(identifier(column.name) for column in self.table.columns)
        values = ", ".join("(" + ", ".join(row) + ")" for row in rows)
        return f"insert into {self.table.sql} ({names}) overriding system value values {values};"

    def update(self):
        others = [column for column in self.table.columns if column.role != "id"]
        if not others:
            return self.unchanged()
        chosen = self.rng.sample(others, min(len(others), self.rng.choice([1, 1, 2, 3])))
        settings = ", ".join(f"{identifier(column.name)} = {self._sql_value(column)}" for column in chosen)
        return f"update {self.table.sql} set {settings} where {self._is(self.rng.choice(self.live))};"

    def update_all(self):
        others = [column for column in self.table.columns if column.role != "id"]
        column = self.rng.choice(others or self.table.columns)
        value = self._sql_value(column) if others else identifier(column.name)
        return f"update {self.table.sql} set {identifier(column.name)} = {value};"

    def unchanged(self):
        name = identifier(self.rng.choice(self.table.columns).name)
        return f"update {self.table.sql} set {name} = {name} where {self._is(self.rng.choice(self.live))};"

    def move(self):
        """A row gets another identity."""
        old, new = self.live.pop(self.rng.randrange(len(self.live))), self._number()
        return f"update {self.table.sql} set {identifier(self.table.id.name)} = {self._id(new)} where {self._is(old)};"

    def delete(self):
        old = self.live.pop(self.rng.randrange(len(self.live)))
        return f"delete from {self.table.sql} where {self._is(old)};"

    def insert_and_delete(self):
        inserted = self.insert()
        return f"{inserted} {self.update()} delete from {self.table.sql} where {self._is(self.live.pop())};"

    def widen(self):
        """The table gets another column, of a type that it has."""
        # Of a table with a domain of an enumeration Debezium looks into the catalog at each row: it may see the column early.
        if any(column.type.sql == "feeling" for column in self.table.columns):
            return self.update_all()
        column = self.rng.choice([column for column in self.table.columns if column.role != "id"] or self.table.columns)
        added = Column(f"added{len(self.table.columns)}", column.type, "extra", False, None)
        self.table.columns.append(added)
        return f"alter table {self.table.sql} add column {added.definition()};"

    def truncate(self):
        self.live.clear()
        return f"truncate {self.table.sql};"

    def _row(self):
        number = self._number()
        return [self._id(number) if column.role == "id" else self._sql_value(column, inserting=True) for column in self.table.columns]

    def _sql_value(self, column, inserting=False):
        rng = self.rng
        if not column.not_null and rng.random() < 0.15:
            return "null"
        if inserting and column.default and rng.random() < 0.3:
            return value_sql(DEFAULT)
        if column.role == "large" and rng.random() < 0.7:
            return large_value(column.type, rng.randint(1, 9))
        return literal(column.type.value(rng))

    def _number(self):
        self.live.append(self.next)
        self.next += 1
        return self.next - 1

    def _id(self, number):
        return literal(IDS[self.table.id.type.sql](number))

    def _is(self, number):
        return f"{identifier(self.table.id.name)} = {self._id(number)}"


class Alterations:
    """Changes of a table itself, halfway."""

    def __init__(self, rng, table):
        self.rng, self.table = rng, table

    def any(self):
        steps = [self.identity, self.add]
        if self.table.free():
            steps += [self.drop, self.rename, self.retype, self.requirement, self.default]
        return self.rng.choice(steps)()

    def identity(self):
        choices = ["default", "full", "full", "nothing"] + ["index"] * bool(self.table.index)
        self.table.identity = self.rng.choice([choice for choice in choices if choice != self.table.identity])
        return "\n".join(self.table.identities())

    def add(self):
        kind = self.rng.choice(TYPES)
        added = extra(self.rng, f"late{len(self.table.columns)}", kind)
        added = dataclasses.replace(added, not_null=added.not_null and bool(added.default))
        self.table.columns.append(added)
        return self._alter(f"add column {added.definition()}")

    def drop(self):
        column = self._column()
        self.table.columns.remove(column)
        return self._alter(f"drop column {identifier(column.name)}")

    def rename(self):
        column = self._column()
        renamed = self._replace(column, name=f"{column.name}_2")
        return self._alter(f"rename column {identifier(column.name)} to {identifier(renamed.name)}")

    def retype(self):
        wider = {"int": "bigint", "smallint": "int", "varchar(10)": "text", "varchar(255)": "varchar", "timestamp(3)": "timestamp",
                 "numeric(10,2)": "numeric(38,10)", "real": "double precision"}
        column = next((column for column in self.table.free() if column.type.sql in wider), None)
        if not column:
            return self.rename()
        sql = wider[column.type.sql]
        self._replace(column, type=dataclasses.replace(column.type, sql=sql))
        return self._alter(f"alter column {identifier(column.name)} type {sql}")

    def requirement(self):
        column = self._column()
        self._replace(column, not_null=False)
        return self._alter(f"alter column {identifier(column.name)} drop not null")

    def default(self):
        column = self._column()
        return self._alter(f"alter column {identifier(column.name)} drop default")

    def _column(self):
        return self.rng.choice(self.table.free())

    def _replace(self, column, **changes):
        changed = dataclasses.replace(column, **changes)
        self.table.columns[self.table.columns.index(column)] = changed
        return changed

    def _alter(self, how):
        return f"alter table {self.table.sql} {how};"


def transactions(rng, changes, count, messages):
    """The tables' changes, mixed: each has `count`; a transaction that PostgreSQL refuses is as if it were not there. With
    `messages`, some have logical messages."""
    waiting = [table for table in changes for _ in range(count)]
    rng.shuffle(waiting)
    result = []
    while waiting:
        size = rng.choice([1, 1, 1, 2, 3, 6])
        steps = [table.step() for table in waiting[:size]]
        waiting = waiting[size:]
        if messages and rng.random() < 0.08:
            steps.insert(rng.randint(0, len(steps)), message(rng))
        chance = rng.random()
        if chance < 0.05:
            steps = ["begin;", steps[0], "savepoint one;", *steps[1:], "rollback to one;", *steps[1:], "commit;"]
        result.append("\n".join(steps))
    return result


def message(rng):
    """A logical message, which only the connector hears."""
    transactional = rng.choice(["true", "false"])
    content = rng.choice(["'text'", "''", "'{\"a\": 1}'", "'é😀'", "'\\x00ff80'::bytea", "repeat('long ', 3000)"])
    return f"select pg_logical_emit_message({transactional}, {literal(rng.choice(PREFIXES))}, {content});"


PREFIXES = ["audit", "audit", "a b", "é", "", "other.prefix"]
