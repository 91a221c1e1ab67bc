"""PostgreSQL's types, and values for them as the input function takes them."""

from dataclasses import dataclass
from typing import Callable

import json_values

SETUP = """create extension if not exists citext;
create extension if not exists hstore;
create extension if not exists ltree;
create type mood as enum ('sad', 'ok', 'happy');
create domain posint as int;
create domain shorttext as varchar(8);
create domain price as numeric(8, 3);
create domain birthday as date;
create domain moment as timestamp(3);
create domain document as jsonb;
create domain place as point;
create type comp as (a int, b text);
create domain smallprice as price check (value < 100);
create domain feeling as mood;
create domain prices as numeric(6, 2)[];"""

LETTERS = ["a", "B", "z", "0", "9", " ", "-", "_", ".", ":", "/", "\\", "'", '"', "{", "}", "[", ",", "$1", "%", "é",
           "ß", "Ω", "中", "😀", "\t", "\n", "\u2028", "\u0001", "\u007f", "<", "&", "null"]


@dataclass(frozen=True)
class ColumnType:
    sql: str
    value: Callable
    """Of a random.Random: a text."""
    kind: str = "other"
    """string, integer, bytes, json, timestamp or other: what it may be used for."""
    default: str | None = None
    """An expression, besides the values themselves."""


def text(longest=12):
    return lambda rng: "".join(rng.choice(LETTERS) for _ in range(rng.randint(0, longest)))[:longest]


def word(rng):
    return rng.choice(["", "acme", "o-1", "Ünï", "😀", "a b", "null", "{}", "0", "user@example.org", "ok"])


def integer(low, high):
    return lambda rng: str(rng.choice([0, 1, -1, low, high, rng.randint(low, high), rng.randint(-1000, 1000)]))


def floating(largest):
    def value(rng):
        special = ["0", "-0", "1", "-1.5", "0.1", "100", "1e7", "9999999", "12345678", "0.001", "0.0001", "1e-5", "1e21",
                   "NaN", "Infinity", "-Infinity", largest, "3.4e-38"]
        # Java prints the shortest digits since version 19 only; three decimals are the same in all.
        return rng.choice([*special, *[f"{rng.uniform(-1000, 1000):.3f}"] * 5])

    return value


def decimal(digits, scale):
    def value(rng):
        number = rng.choice(["0", "1", "-1", "9" * digits, "-" + "9" * digits, str(rng.randrange(10**digits)),
                             str(rng.randrange(1000) % 10**digits), "1" + "0" * (digits - 1)])
        sign, number = ("-", number[1:]) if number.startswith("-") else ("", number)
        if scale == 0:
            return sign + number
        number = number.rjust(scale + 1, "0")
        return f"{sign}{number[:-scale]}.{number[-scale:]}"

    return value


def any_decimal(rng):
    return rng.choice(["0", "0.00", "1.10", "-1.2300", "100", "1e10", "1200", "123456789012345678901234567890.123456789",
                       "0.000000001", "-0.5", str(rng.randint(-10**6, 10**6) / 100)])


def hexadecimal(rng):
    return "\\x" + rng.choice(["", "00", "deadbeef", "7b7d", "ff", rng.randbytes(rng.randint(1, 20)).hex()])


def bits(low, high):
    return lambda rng: "".join(rng.choice("01") for _ in range(rng.randint(low, high)))


def clock(rng):
    fraction = rng.choice(["", ".1", ".123", ".123456", ".000001", ".999999", ".5"])
    return f"{rng.randrange(24):02}:{rng.randrange(60):02}:{rng.randrange(60):02}{fraction}"


def day(rng):
    special = ["1970-01-01", "1969-12-31", "2000-02-29", "1582-10-04", "1582-10-15", "0001-01-01", "9999-12-31"]
    return rng.choice([*special, *[f"{rng.randint(1971, 2025)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}"] * 7])


def moment(rng):
    return f"{day(rng)} {clock(rng)}"


def gregorian_moment(rng):
    """A moment since 1583: Debezium reads older ones in arrays, and there alone, in the Julian calendar."""
    while (text := moment(rng)) < "1583":
        pass
    return text


def zone(rng):
    return rng.choice(["+00", "+02", "-08", "+05:30", "-03:30"])


def interval(rng):
    return rng.choice(["0", "1 day", "-1 day", "1 mon", "1 year 2 mons 3 days 04:05:06.789", "00:00:00.000001",
                       "-00:00:01.5", "-1 mons +3 days", "100 years", f"{rng.randint(-400, 400)} days {clock(rng)}"])


def uuid(rng):
    return f"{rng.getrandbits(32):08x}-{rng.getrandbits(16):04x}-4{rng.getrandbits(12):03x}-8000-{rng.getrandbits(48):012x}"


def one_of(*values):
    return lambda rng: rng.choice(values)


def range_of(low, high):
    return lambda rng: rng.choice(["empty", f"[{low},{high})", f"({low},{high}]", f"[{low},)", "(,)"])


def array(element, value, nulls=0.1):
    def text_of(item):
        return "NULL" if item is None else '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'

    def values(rng):
        items = [None if rng.random() < nulls else value(rng) for _ in range(rng.choice([0, 1, 1, 2, 3]))]
        return "{" + ",".join(text_of(item) for item in items) + "}"

    return ColumnType(f"{element}[]", values)


def timestamp(sql):
    return ColumnType(sql, moment, "timestamp", "now()")


def zoned(sql):
    return ColumnType(sql, lambda rng: moment(rng) + zone(rng), default="now()")


STRINGS = [
    ColumnType("text", text(), "string"), ColumnType("varchar", text(), "string"),
    ColumnType("varchar(255)", text(20), "string"), ColumnType("varchar(10)", text(10), "string"),
    ColumnType("char(6)", text(6), "string"), ColumnType("citext", text(), "string"),
    ColumnType("mood", one_of("sad", "ok", "happy"), "string"), ColumnType("shorttext", text(8), "string"),
    ColumnType("uuid", uuid, "string", "gen_random_uuid()"),
]
INTEGERS = [
    ColumnType("smallint", integer(-2**15, 2**15 - 1), "integer"), ColumnType("int", integer(-2**31, 2**31 - 1), "integer"),
    ColumnType("bigint", integer(-2**63, 2**63 - 1), "integer"), ColumnType("posint", integer(0, 2**31 - 1), "integer"),
]
TIMESTAMPS = [timestamp(sql) for sql in ("timestamp", "timestamp(0)", "timestamp(3)", "timestamp(4)", "timestamp(6)")]
JSON = [
    ColumnType("json", lambda rng: json_values.document(rng, spaced=True), "json"),
    ColumnType("jsonb", lambda rng: json_values.document(rng), "json"),
]
BYTES = [ColumnType("bytea", hexadecimal, "bytes")]
NUMBERS = [
    ColumnType("boolean", one_of("t", "f")), ColumnType("real", floating("3.4028235e38")),
    ColumnType("double precision", floating("1.7976931348623157e308")), ColumnType("numeric", any_decimal),
    ColumnType("numeric(10,2)", decimal(10, 2)), ColumnType("numeric(5)", decimal(5, 0)),
    ColumnType("numeric(38,10)", decimal(38, 10)), ColumnType("numeric(2,4)", decimal(2, 4)), ColumnType("money", decimal(9, 2)),
    ColumnType("oid", integer(0, 2**32 - 1)),
]
TIMES = [
    ColumnType("date", day, default="CURRENT_DATE"), ColumnType("time", clock), ColumnType("time(0)", clock),
    ColumnType("time(3)", clock), ColumnType("time(5)", clock), ColumnType("timetz", lambda rng: clock(rng) + zone(rng)),
    ColumnType("timetz(3)", lambda rng: clock(rng) + zone(rng)), ColumnType("interval", interval),
    *(zoned(sql) for sql in ("timestamptz", "timestamptz(0)", "timestamptz(1)", "timestamptz(3)")),
]
OTHERS = [
    ColumnType('"char"', one_of("a", "Z", "")), ColumnType("bit(1)", bits(1, 1)), ColumnType("bit(10)", bits(10, 10)),
    ColumnType("bit(8)", bits(8, 8)), ColumnType("bit varying", bits(1, 20)), ColumnType("bit varying(5)", bits(1, 5)),
    ColumnType("xml", one_of("<a/>", "<a>1</a>", "<ü x='1'>&lt;</ü>")), ColumnType("inet", one_of("10.0.0.1", "::1/64")),
    ColumnType("cidr", one_of("10.0.0.0/8", "::/0")), ColumnType("macaddr", one_of("08:00:2b:01:02:03")),
    ColumnType("macaddr8", one_of("08:00:2b:01:02:03:04:05")), ColumnType("ltree", one_of("a", "a.b.c", "")),
    ColumnType("hstore", one_of('"k1"=>"v1", "k2"=>NULL', "", '"ü"=>"a \\"b\\" \\\\ c"', '"a"=>"1"')),
    ColumnType("point", one_of("(1.5,-2)", "(0,0)", "(1e300,0.1)")), ColumnType("tsvector", one_of("", "'a' 'cat':3A 'fat'")),
    ColumnType("int4range", range_of(1, 5)), ColumnType("int8range", range_of(-5, 7)), ColumnType("numrange", range_of(1.5, 5)),
    ColumnType("tsrange", range_of('"2024-01-01 00:00:00"', '"2024-01-02 03:04:05.6"')),
    ColumnType("tstzrange", range_of('"2024-01-01 00:00:00+01"', '"2024-01-02 00:00:00+01"')),
    ColumnType("daterange", range_of("2024-01-01", "2024-01-05")),
]
ARRAYS = [
    array("text", text(6)), array("varchar(6)", text(6)), array("int", integer(-2**31, 2**31 - 1)),
    array("bigint", integer(-2**63, 2**63 - 1)), array("smallint", integer(-2**15, 2**15 - 1)), array("boolean", one_of("t", "f")),
    array("real", floating("3.4028235e38")), array("double precision", floating("1.7976931348623157e308")),
    array("numeric", any_decimal), array("numeric(10,2)", decimal(8, 2)), array("uuid", uuid), array("date", day),
    array("time", clock), array("timestamp", gregorian_moment), array("timestamp(3)", gregorian_moment), array("mood", one_of("sad", "ok")),
    array("timestamptz", lambda rng: gregorian_moment(rng) + zone(rng)), array("timetz", lambda rng: clock(rng) + zone(rng)),
    array("jsonb", lambda rng: json_values.document(rng)), array("json", lambda rng: json_values.document(rng)),
    array("inet", one_of("10.0.0.1", "::1/64")), array("bytea", hexadecimal), array("char(3)", text(3)),
    array("citext", text(5)), array("int4range", range_of(1, 5)),
    # No bit(n)[]: Debezium sends NULL for it, outboxd its bits.
]
ALL = STRINGS + INTEGERS + TIMESTAMPS + JSON + BYTES + NUMBERS + TIMES + OTHERS + ARRAYS
