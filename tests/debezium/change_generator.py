"""Random tables with their changes under one configuration: the same seed gives the same batch."""

import random
from dataclasses import dataclass

from case_file import Case
from change_options import random_change_config
from change_tables import random_change_table, setup
from change_workload import Alterations, Changes, transactions
from registered_options import PROTOBUF, registered

BEFORE = 2
STEPS = 9
LATER_STEPS = 4


@dataclass
class Batch:
    seed: int
    tables: list
    case: Case


def tag_of(seed):
    """The prefix of every topic."""
    return f"c{seed:05}"


def generated(seed, count, form=None):
    """A batch of so many tables, in a form whose schemas a registry keeps if one is given."""
    rng = random.Random(f"changes {seed}")
    tables = [random_change_table(rng, number) for number in range(1, count + 1)]
    if form == PROTOBUF:
        tables = [table for table in tables if not has_bytes_as_key(table)]
    config = random_change_config(rng, tables, tag_of(seed))
    if form:
        config = registered(random.Random(f"{form} {seed}"), config, form)
    changes = [Changes(rng, table) for table in tables]
    before = "\n".join(table.insert(BEFORE) for table in changes)
    schema = [setup(tables), *(table.definition() for table in tables)]
    if any(table.partitioned for table in tables):
        schema.append(own_publication(config))
    # The end of a transaction names messages by the address of a Java object.
    messages = "provide.transaction.metadata" not in config
    tx = transactions(rng, changes, STEPS, messages)  # which may add columns to the tables
    alterations, pause = altered(seed, tables), len(tx)
    if alterations:
        tx += alterations + transactions(rng, changes, LATER_STEPS, messages)
    about = f"Random tables, options and changes of seed {seed}."
    case = Case(about=about, source="", schema="\n".join(schema), before=before, config=config, tx=tx, lenient=True,
                pause=pause if alterations else None)
    return Batch(seed, tables, case)


def has_bytes_as_key(table):
    """ProtobufConverter reads the bytes of a key once; the tombstone, which has the same key, then is without them."""
    names = (table.id.name, *table.key, *table.index)
    return any(column.type.sql == "bytea" and column.name in names for column in table.columns)


def altered(seed, tables):
    """What changes tables halfway, for some seeds. Both systems look into the catalog, so all that was before must be sent."""
    rng = random.Random(f"alterations {seed}")
    if rng.random() < 0.6:
        return []
    chosen = rng.sample(tables, min(len(tables), rng.randint(2, 8)))
    statements = [Alterations(rng, table).any() for table in chosen]
    whole = [table for table in tables if table not in chosen]
    emptied = rng.sample(whole, min(len(whole), rng.choice([0, 0, 2, 3])))
    statements += [f"truncate {', '.join(table.sql for table in emptied)};"] if emptied else []
    return statements


def own_publication(config):
    """Debezium makes a publication of partitions over again, with a statement that PostgreSQL does not know."""
    root = config.pop("publish.via.partition.root", "false")
    config |= {"publication.name": "own", "publication.autocreate.mode": "disabled"}
    return f"create publication own for all tables with (publish_via_partition_root = {root});"
