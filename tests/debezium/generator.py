"""Random cases: the same seed gives the same case."""

import random

from case_file import Case
from options import random_config
from tables import random_table
from workload import Workload

TRANSACTIONS = 14
BEFORE = 2
NULL_KEYS = 0.1


def tag_of(seed):
    """What the name of every topic of the case holds."""
    return f"s{seed:05}"


def generated(seed):
    """The case, and its workload."""
    rng = random.Random(seed)
    tag = tag_of(seed)
    table = random_table(rng, rng.random() < NULL_KEYS)
    config = random_config(rng, table, tag)
    if rng.random() < 0.8:
        config["errors.tolerance"] = "all"
    workload = Workload(rng, table, tag)
    before = "\n".join(workload.insert_many() for _ in range(BEFORE))
    tx = workload.transactions(TRANSACTIONS)
    about = f"Random table, options and values of seed {seed}."
    return Case(about=about, source="", schema=table.definition(), before=before, config=config, tx=tx), workload
