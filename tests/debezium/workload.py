"""Random transactions on an outbox table."""

import base64

from tables import identifier, literal

DEFAULT = object()
TEXTS = ["text", "varchar", "varchar(255)", "varchar(10)", "char(6)", "citext"]
ROUTES = ["order", "order", "order", "customer", "Order", "order.paid", "x_1"]


class Workload:
    """Rows with ids of their own, and the transactions that write them."""

    def __init__(self, rng, table, tag):
        self.rng, self.table, self.tag = rng, table, tag
        self.rows = {}
        """By number: the columns' texts, None, or DEFAULT."""

    def transactions(self, count):
        steps = [self.insert, self.insert, self.insert_many, self.insert_many, self.copy, self.insert_and_delete,
                 self.savepoint, self.rolled_back, self.update, self.delete, self.select]
        if self.rng.random() < 0.2:
            steps.append(self.truncate)
        return [self.rng.choice(steps)() for _ in range(count)] + [self.insert()]

    def insert(self):
        return self._insert([self._row()])

    def insert_many(self):
        return self._insert([self._row() for _ in range(self.rng.randint(2, 7))])

    def select(self):
        """Copies the last row under another id."""
        if not self.rows:
            return self.insert()
        number = self._number()
        columns = [identifier(column.name) for column in self.table.columns]
        values = [literal(self._id(number)) + f"::{column.type.sql}" if column.role == "id" else identifier(column.name)
                  for column in self.table.columns]
        self.rows[number] = self.rows[number - 1]
        return (f"insert into {self.table.sql} ({', '.join(columns)})\n  select {', '.join(values)}\n"
                f"  from {self.table.sql} where {self._is(number - 1)};")

    def copy(self):
        rows = [self._row(defaults=False) for _ in range(self.rng.randint(2, 6))]
        lines = ["\t".join(copy_text(row[column.name]) for column in self.table.columns) for row in rows]
        data = base64.b64encode(("\n".join(lines) + "\n").encode()).decode()
        columns = ", ".join(identifier(column.name) for column in self.table.columns)
        return f"copy {self.table.sql} ({columns}) from program 'echo {data} | base64 -d';"

    def insert_and_delete(self):
        return f"{self.insert()}\ndelete from {self.table.sql} where {self._is(len(self.rows))};"

    def savepoint(self):
        return (f"begin;\n{self.insert()}\nsavepoint one;\n{self.insert()}\nrollback to one;\n{self.insert()}\n"
                "savepoint two;\n" f"{self.insert()}\nrelease two;\ncommit;")

    def rolled_back(self):
        return f"begin;\n{self.insert()}\nrollback;"

    def update(self):
        column = self.table.with_role("type")
        value = literal(column.type.value(self.rng))
        return f"update {self.table.sql} set {identifier(column.name)} = {value} where {self._is(self._known())};"

    def delete(self):
        return f"delete from {self.table.sql} where {self._is(self._known())};"

    def truncate(self):
        return f"truncate {self.table.sql};"

    def single(self, number):
        """A transaction that inserts this row alone."""
        return self._insert([self.rows[number]])

    def _insert(self, rows):
        columns = ", ".join(identifier(column.name) for column in self.table.columns)
        values = ",\n  ".join("(" + ", ".join(value_sql(row[column.name]) for column in self.table.columns) + ")"
                              for row in rows)
        return f"insert into {self.table.sql} ({columns}) values\n  {values};"

    def _row(self, defaults=True):
        number = self._number()
        row = {column.name: self._value(column, number, defaults) for column in self.table.columns}
        self.rows[number] = row
        return row

    def _value(self, column, number, defaults):
        rng = self.rng
        if column.role == "id":
            return self._id(number)
        if column.role == "route":
            return f"{self.tag}.{rng.choice(ROUTES)}"
        if column.role == "partition":
            return str(rng.choice([0, 1, 2]))
        if column.role == "version":
            return str(rng.choice([1, 1, 2]))
        if not column.not_null and rng.random() < 0.15:
            return None
        if column.default and defaults and rng.random() < 0.3:
            return DEFAULT
        if column.role == "moment":
            return f"{rng.randint(1971, 2025)}-01-02 03:04:05.{rng.choice(['6789', '000001', '999999', '1', '0'])}"
        if column.role == "payload" and column.type.sql in TEXTS and rng.random() < 0.4:
            return rng.choice(["", " ", "{}", "\t\n", '{"a":1}', "[]", "{broken", '{"a":1} x', ' {"a":1}'])[:6]
        return column.type.value(rng)

    def _number(self):
        return len(self.rows) + 1

    def _known(self):
        return self.rng.randint(1, max(1, len(self.rows)))

    def _id(self, number):
        uuids = self.table.with_role("id").type.sql == "uuid"
        return f"00000000-0000-4000-8000-{number:012}" if uuids else str(number)

    def _is(self, number):
        return f"{identifier(self.table.with_role('id').name)} = {literal(self._id(number))}"


def value_sql(value):
    return "default" if value is DEFAULT else literal(value)


def copy_text(value):
    if value is None:
        return "\\N"
    for character, escape in (("\\", "\\\\"), ("\t", "\\t"), ("\n", "\\n"), ("\r", "\\r")):
        value = value.replace(character, escape)
    return value
