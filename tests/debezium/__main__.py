"""python3 tests/debezium COMMAND: see README.md beside this file."""

import argparse
import signal
import sys

sys.dont_write_bytecode = True

import servers
from change_fuzz import fuzz_tables
from columns import columns
from corpus import corpus
from follow import PARTS, follow
from fuzz import fuzz
from literals import literals
from record import record
from registered_options import APICURIO_AVRO
from trial import Trials


def main():
    parser = argparse.ArgumentParser(prog="tests/debezium", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("servers", help="start the servers, print their addresses, wait for Ctrl-C")
    recording = commands.add_parser("record", help="record anew every case that says it was recorded")
    recording.add_argument("--check", action="store_true", help="write nothing, tell the differences")
    recording.add_argument("case", nargs="*", help="file names without .yaml; all when none is given")
    measuring = commands.add_parser("columns", help="measure tests/cases/columns.tsv anew")
    measuring.add_argument("--check", action="store_true", help="write nothing, tell the differences")
    measuring.add_argument("--extensions", action="store_true", help="extension-columns.tsv, with a server that has them")
    reading = commands.add_parser("literals", help="read the literals of tests/cases/header-literals.tsv anew")
    reading.add_argument("--check", action="store_true", help="write nothing, tell the differences")
    fuzzing = commands.add_parser("fuzz", help="random cases through Debezium and outboxd, side by side")
    fuzzing.add_argument("--seeds", default="1-20", help="FIRST-LAST, default 1-20")
    fuzzing.add_argument("--known", metavar="FILE", help="more entries like those of deliberate.yaml: differences already found")
    fuzzing.add_argument("--minimise", action="store_true", help="look for the smallest case of each difference, which takes long")
    fuzzing.add_argument("--verbose", action="store_true", help="tell also where Debezium failed and outboxd did not")
    changing = commands.add_parser("fuzz-tables", help="random tables and their change events, side by side")
    changing.add_argument("--seeds", default="1-20", help="FIRST-LAST, default 1-20")
    changing.add_argument("--tables", type=int, default=20, help="tables of a seed, all under its configuration, default 20")
    changing.add_argument("--known", metavar="FILE", help="more entries like those of deliberate_changes.yaml: differences already found")
    forms = changing.add_mutually_exclusive_group()
    forms.add_argument("--avro", dest="form", action="store_const", const=APICURIO_AVRO,
                       help="keys and values in Avro, with a registry for each of the two")
    forms.add_argument("--confluent", dest="form", choices=["avro", "json-schema", "protobuf"],
                       help="keys and values by Confluent's converters, whose jars are in $CONFLUENT")
    following = commands.add_parser("follow", help="what another version of Debezium changes: bytes, options, tests")
    following.add_argument("version", help="such as 3.7.1.Final")
    following.add_argument("--only", metavar="PART,…", default=",".join(PARTS), help=f"of {', '.join(PARTS)}")
    following.add_argument("--seeds", default="1-20", help="of the random comparison, default 1-20")
    following.add_argument("--suite", metavar="FOLDER", help="Debezium's sources, where its tests jar is not served")
    following.add_argument("--accept", action="store_true", help="write the cases, columns, options and tests of that version")
    collecting = commands.add_parser("corpus", help="write tests/cases/generated anew")
    collecting.add_argument("--seeds", default="1000-1099", help="FIRST-LAST, default 1000-1099")
    collecting.add_argument("--rows", type=int, default=600, help="how many records are enough, default 600")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    version = getattr(arguments, "version", None)
    if arguments.command == "literals":
        sys.exit(1 if literals(servers.fetched(), arguments.check) and arguments.check else 0)
    with servers.running(version) as addresses:
        if arguments.command == "servers":
            print(addresses.exports(), flush=True)
            signal.pause()
        elif arguments.command == "record":
            differing = record(Trials(addresses), arguments.case, arguments.check)
            sys.exit(1 if arguments.check and differing else 0)
        elif arguments.command == "columns":
            differing = columns(Trials(addresses), arguments.check, arguments.extensions)
            sys.exit(1 if arguments.check and differing else 0)
        elif arguments.command == "fuzz":
            options = (arguments.known, arguments.verbose, arguments.minimise)
            sys.exit(1 if fuzz(Trials(addresses), seeds(arguments.seeds), *options) else 0)
        elif arguments.command == "fuzz-tables":
            found = fuzz_tables(Trials(addresses), seeds(arguments.seeds), arguments.tables, arguments.known, arguments.form)
            sys.exit(1 if found else 0)
        elif arguments.command == "follow":
            options = (arguments.only.split(","), seeds(arguments.seeds), arguments.suite, arguments.accept)
            sys.exit(1 if follow(Trials(addresses), servers.debezium(version), *options) else 0)
        elif arguments.command == "corpus":
            sys.exit(0 if corpus(Trials(addresses), seeds(arguments.seeds), arguments.rows) >= arguments.rows else 1)


def seeds(text):
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


main()
