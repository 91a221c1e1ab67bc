"""Random tables whose change events are compared."""

import dataclasses
import re
from dataclasses import dataclass

import column_types
from column_types import ColumnType
from tables import Column, identifier, literal

SCHEMAS = ["public"] * 6 + ["shop", "Shop 1", "s.x"]
NAMES = ["orders", "Orders", "order items", "x.y", "täble", "a-b_c", "Weird.Name", "t", "customer", "line_items", "T$1", "中文"]
COMMON = {"v": "text", "n": "int", "amount": "numeric(10,2)", "at": "timestamp(3)", "tz": "timestamptz", "data": "bytea", "flag": "boolean"}
"""Columns that many tables have, so that options and transforms can name them."""
EXTRA_NAMES = ["tenant", "Prio", "trace id", "ünïcode", "meta", "select", "x-y", "a.b", "n1", "n2", "n3", "Q\"uote", "created_at",
               "attr", "__deleted", "zone", "$money", "t\\b", "1st", "op", "before", "X-Y2", "schema"]
IDS = {
    "int": str, "bigint": str, "smallint": str, "text": lambda n: f"k{n}", "varchar(255)": lambda n: f"ké {n}", "char(6)": str,
    "citext": lambda n: f"K{n}", "uuid": lambda n: f"00000000-0000-4000-8000-{n:012}", "numeric": lambda n: f"{n}.50",
    "numeric(10,2)": lambda n: f"{n}.25", "timestamp": lambda n: f"2024-01-01 00:00:00.{n:06}", "bytea": lambda n: f"\\x{n:08x}",
    "date": lambda n: f"20{n % 90 + 10}-01-{n // 90 + 1:02}", "timestamptz": lambda n: f"2024-01-01 00:00:00.{n:06}+02",
}
"""Distinct values of the types of an identifying column."""
# Debezium stops at a NULL in an array of an enumeration.
TYPES = [kind for kind in column_types.ALL if kind.sql != "mood[]"] + [column_types.array("mood", column_types.one_of("sad", "ok"), 0)]
TYPES += [column_types.ColumnType(sql, column_types.one_of(*texts)) for sql, *texts in (
    ("box", "(1,2),(0,-1.5)", "(0,0),(0,0)"), ("lseg", "[(0,0),(1,2.5)]"), ("path", "[(0,0),(1,1)]", "((0,0),(1,1),(2,0))"),
    ("polygon", "((0,0),(1,0),(0,1))"), ("circle", "<(1,2),3>", "<(0,0),0>"), ("line", "{1,-1,0.5}"), ("jsonpath", "$.a"),
    ("timestamp", "infinity", "-infinity", "0044-03-15 12:00:00 BC", "2024-01-01"),
    ("timestamptz", "infinity", "-infinity", "0044-03-15 12:00:00+00 BC"), ("pg_lsn", "16/B374D848"),
    ("regclass", "pg_class"), ("time", "24:00", "00:00"), ("timetz", "24:00+00", "00:00+05:30"), ("real[]", "{NaN,1e30}"),
    ("price", "0", "-1.5", "99999.999"), ("birthday", "2024-02-29"), ("moment", "2024-01-02 03:04:05.678"), ("document", "{}", "[1, null]"),
    ("comp", "(1,x)", '(,"a ""b"" \\\\")', "(-5,)"), ("comp[]", '{"(1,x)"}', "{}"), ("smallprice", "0.5", "-99.999"), ("feeling", "sad", "ok"),
    ("prices", "{1.5,2}", "{}"), ("posint[]", "{1,2}", "{}"), ("name", "n", ""), ("xid", "123"), ("interval[]", "{1 day,00:00:01}"), ("tsquery", "'a' & 'b'"),
    ("point[]", '{"(1,2)",NULL}'), ("hstore[]", '{"a=>1",NULL}'), ("ltree[]", "{a.b,c}"), ("money[]", '{"$1.50",NULL}'), ("oid[]", "{1,4294967295}"),
    ("bpchar", "a ", ""), ("varchar(3)[]", "{abc,NULL}"), ("int[]", "{{1,2},{3,4}}", "[0:1]={5,6}"),
    ("place", "(1,2)"), ("interval year to month", "1 year 2 mons"), ("numeric", "1e-20"), ("tid", "(0,1)"), ("txid_snapshot", "10:20:10,14,15"), ("int4multirange", "{[1,5)}"),
)]
LARGE = ["text", "bytea", "jsonb", "varchar", "text[]", "int[]"]


@dataclass
class ChangeTable:
    schema: str
    name: str
    columns: list
    key: tuple
    """Names of the primary key's columns."""
    index: tuple
    """Names of a unique index' columns, all not null."""
    identity: str
    """default, full, nothing or index."""
    partitioned: str = ""
    """The names of two partitions' suffixes, by hash of the first column of the key."""

    @property
    def sql(self):
        return f"{identifier(self.schema)}.{identifier(self.name)}"

    @property
    def id(self):
        return next(column for column in self.columns if column.role == "id")

    def changeable(self):
        """Whether PostgreSQL lets a published row be changed."""
        return self.identity == "full" or self.identity == "default" and bool(self.key) or self.identity == "index"

    def definition(self):
        lines = [column.definition() for column in self.columns]
        if self.key:
            lines.append(f"primary key ({listed(self.key)})")
        partition_by = f" partition by hash ({identifier(self.key[0])})" if self.partitioned else ""
        parts = [f"create table {self.sql} (\n  " + ",\n  ".join(lines) + f"){partition_by};"]
        for remainder, suffix in enumerate(self.partitioned.split()):
            parts.append(f"create table {self._sql(self.name + suffix)} partition of {self.sql} for values with (modulus 2, remainder {remainder});")
        if self.index:
            parts.append(f"create unique index {identifier(self.name + '_u')} on {self.sql} ({listed(self.index)});")
        if self.identity != "default":
            parts += self.identities()
        return "\n".join(parts)

    def identities(self):
        """What gives the table and its partitions their replica identity."""
        how = f"using index {identifier(self.name + '_u')}" if self.identity == "index" else self.identity
        names = [self.name + suffix for suffix in ("", *self.partitioned.split())]
        return [f"alter table {self._sql(name)} replica identity {how};" for name in names]

    def free(self):
        """Columns that nothing else depends on."""
        return [column for column in self.columns if column.name not in (self.id.name, *self.key, *self.index)]

    def _sql(self, name):
        return f"{identifier(self.schema)}.{identifier(name)}"


def listed(names):
    return ", ".join(map(identifier, names))


def setup(tables):
    """What the tables need first."""
    schemas = dict.fromkeys(table.schema for table in tables if table.schema != "public")
    return "\n".join([column_types.SETUP, *(f"create schema {identifier(schema)};" for schema in schemas)])


def random_change_table(rng, number):
    """Its name ends in its number."""
    schema, name = rng.choice(SCHEMAS), f"{rng.choice(NAMES)}{number}"
    id_column = Column(rng.choice(["id", "id", "id", "Id", "order id", "id.x"]), of(rng.choice(list(IDS))), "id", True, None)
    columns = [extra(rng, common, of(sql)) for common, sql in COMMON.items() if rng.random() < 0.35]
    columns += [extra(rng, other, rng.choice(TYPES)) for other in rng.sample(EXTRA_NAMES, rng.randint(0, 7))]
    if rng.random() < 0.3:
        columns.append(large(rng))
    columns.insert(rng.randint(0, len(columns)) if rng.random() < 0.4 else 0, id_column)
    key, columns = random_key(rng, id_column, columns)
    index = random_index(rng, id_column, columns) if rng.random() < (0.2 if key else 0.5) else ()
    partitioned = "_p0 _P-1" if key and not index and key[0] == id_column.name and rng.random() < 0.1 else ""
    choices = ["default"] * 4 + ["full"] * 3 + ["nothing"] + ["index"] * (2 if index else 0)
    identity = rng.choice(choices)
    if not key and identity == "default" and rng.random() < 0.7:
        identity = "full"
    return ChangeTable(schema, name, columns, key, index, identity, partitioned)


def random_key(rng, id_column, columns):
    """The primary key, mostly the identifying column; its columns are not null."""
    others = [column.name for column in columns if column.type.sql in IDS and column.role == "extra" and plain(column.name)]
    chance = rng.random()
    if chance < 0.15:
        return (), columns
    key = [id_column.name]
    if chance < 0.45 and others:
        key.insert(rng.choice([0, 1]), rng.choice(others))
    columns = [dataclasses.replace(column, not_null=True) if column.name in key else column for column in columns]
    return tuple(key), columns


def random_index(rng, id_column, columns):
    others = [column.name for column in columns if column.not_null and column.type.sql in IDS and column.role == "extra" and plain(column.name)]
    return (id_column.name, *rng.sample(others, min(len(others), rng.choice([0, 0, 1]))))


def extra(rng, name, kind):
    # Of a required array without a value, as in an old row, Debezium has nothing to send, and stops.
    not_null = rng.random() < 0.4 and not kind.sql.endswith("[]")
    return Column(name, kind, "extra", not_null, default(rng, kind))


def default(rng, kind):
    if rng.random() < 0.75:
        return None
    value = kind.value(rng)
    # In a default Debezium takes an infinity for a year.
    if "infinity" in value or " BC" in value:
        return None
    return kind.default if kind.default and rng.random() < 0.5 else literal(value)


def large(rng):
    """A column whose values are stored out of line."""
    kind = of(rng.choice(LARGE))
    not_null = rng.random() < 0.3 and not kind.sql.endswith("[]")
    return Column(rng.choice(["large", "Big One"]), kind, "large", not_null, None)


def large_value(kind, seed):
    """An expression for some 10 kB that do not compress well."""
    text = f"(select string_agg(md5((i * {seed})::text), '') from generate_series(1, 300) i)"
    if kind.sql == "int[]":
        return f"(select array_agg(i * {seed}) from generate_series(1, 3000) i)"
    if kind.sql == "text[]":
        return f"array[{text}, null, 'x']"
    if kind.sql == "bytea":
        return f"decode({text}, 'hex')"
    return f"to_jsonb({text})" if kind.sql == "jsonb" else text


def of(sql) -> ColumnType:
    return next(kind for kind in column_types.ALL if kind.sql == sql)


def plain(name):
    """Whether an option can hold the name without another meaning."""
    return bool(re.fullmatch(r"[\w .$-]+", name))
