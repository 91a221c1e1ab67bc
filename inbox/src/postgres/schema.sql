-- Which events are done. A row is written in the transaction of the event's effect.
CREATE TABLE IF NOT EXISTS processed_messages (
    consumer     text        NOT NULL,
    message_id   text        NOT NULL,
    processed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (consumer, message_id)
);

-- For what is deleted by age. CREATE INDEX IF NOT EXISTS would wait for the transactions that write the table.
DO $$
BEGIN
    IF to_regclass('processed_messages_processed_at') IS NULL THEN
        CREATE INDEX processed_messages_processed_at ON processed_messages USING brin (processed_at);
    END IF;
END
$$;

-- Who has a partition: the one that knows its epoch.
CREATE TABLE IF NOT EXISTS inbox_partition (
    id        integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer  text    NOT NULL,
    topic     text    NOT NULL,
    partition integer NOT NULL,
    epoch     bigint  NOT NULL DEFAULT 0,
    -- Handlers may have begun the events from this offset to before that one without ending them. It is empty again as
    -- soon as the partition is given back.
    begun_from  bigint NOT NULL DEFAULT 0,
    begun_until bigint NOT NULL DEFAULT 0,
    UNIQUE (consumer, topic, partition)
);

-- How often a handler has begun an event without ending it, for events that are under suspicion: the process ended once
-- when they may have been begun. A row lives as long as the handler is at it, and longer only when the process ends in the
-- middle.
CREATE TABLE IF NOT EXISTS inbox_attempt (
    partition_id integer NOT NULL,
    "offset"     bigint  NOT NULL,
    begun        integer NOT NULL,
    PRIMARY KEY (partition_id, "offset")
);

-- Events that wait for another attempt, and behind them the later events of their keys.
CREATE TABLE IF NOT EXISTS inbox_parked (
    partition_id  integer     NOT NULL,
    "offset"      bigint      NOT NULL,
    timestamp_ms  bigint,
    key           bytea,
    value         bytea,
    header_names  bytea[]     NOT NULL,
    header_values bytea[]     NOT NULL,
    attempts      integer     NOT NULL,
    error         text,
    not_before    timestamptz NOT NULL,
    -- It is a dead letter, and those behind it wait until somebody deletes it.
    is_dead       boolean     NOT NULL DEFAULT false,
    -- It waits for the numbers before this one.
    number        bigint,
    parked_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (partition_id, "offset")
);

-- The number of the next event of a key, for consumers that know repeats by number.
CREATE TABLE IF NOT EXISTS inbox_sequence (
    consumer text   NOT NULL,
    key      bytea  NOT NULL,
    next     bigint NOT NULL,
    PRIMARY KEY (consumer, key)
);

-- Numbers that became dead letters. They are handled when they come again.
CREATE TABLE IF NOT EXISTS inbox_sequence_dead (
    consumer text   NOT NULL,
    key      bytea  NOT NULL,
    number   bigint NOT NULL,
    PRIMARY KEY (consumer, key, number)
);

-- For consumers that know repeats by position: which events are done, a row for each transaction.
CREATE TABLE IF NOT EXISTS inbox_done (
    partition_id integer            NOT NULL,
    source       text               NOT NULL,
    -- The least and the greatest position.
    first        text COLLATE "C"   NOT NULL,
    last         text COLLATE "C"   NOT NULL,
    message_ids  text[]             NOT NULL,
    done_at      timestamptz        NOT NULL DEFAULT now()
);

DO $$
BEGIN
    IF to_regclass('inbox_done_last') IS NULL THEN
        CREATE INDEX inbox_done_last ON inbox_done (partition_id, source, last);
        CREATE INDEX inbox_done_done_at ON inbox_done USING brin (done_at);
    END IF;
END
$$;

-- What makes positions comparable, and why they are not any more.
CREATE TABLE IF NOT EXISTS inbox_topic (
    consumer   text    NOT NULL,
    topic      text    NOT NULL,
    partitions integer NOT NULL,
    source     text,
    by_ids     text,
    PRIMARY KEY (consumer, topic)
);
