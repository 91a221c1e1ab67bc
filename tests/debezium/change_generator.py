"""Random tables with their changes under one configuration: the same seed gives the same batch."""

import random
from dataclasses import dataclass

from case_file import Case
from change_options import random_change_config
from change_tables import random_change_table, setup
from change_workload import Changes, transactions

BEFORE = 2
STEPS = 9


@dataclass
class Batch:
    seed: int
    tables: list
    case: Case


def tag_of(seed):
    """The prefix of every topic."""
    return f"c{seed:05}"


def generated(seed, count):
    """A batch of so many tables."""
    rng = random.Random(f"changes {seed}")
    tables = [random_change_table(rng, number) for number in range(1, count + 1)]
    config = random_change_config(rng, tables, tag_of(seed))
    changes = [Changes(rng, table) for table in tables]
    before = "\n".join(table.insert(BEFORE) for table in changes)
    schema = [setup(tables), *(table.definition() for table in tables)]
    if any(table.partitioned for table in tables):
        schema.append(own_publication(config))
    tx = transactions(rng, changes, STEPS)  # which may add columns to the tables
    about = f"Random tables, options and changes of seed {seed}."
    return Batch(seed, tables, Case(about=about, source="", schema="\n".join(schema), before=before, config=config, tx=tx, lenient=True))


def own_publication(config):
    """Debezium makes a publication of partitions over again, with a statement that PostgreSQL does not know."""
    config["snapshot.mode"] = "no_data"
    root = config.pop("publish.via.partition.root", "false")
    config |= {"publication.name": "own", "publication.autocreate.mode": "disabled"}
    return f"create publication own for all tables with (publish_via_partition_root = {root});"
