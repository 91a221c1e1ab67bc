-- The tables of outboxd-inbox, version 5. Each statement can run again, and on the tables of an older version it brings them to
-- this one. Stop the consumers of an older version before. All tables are in the first schema of search_path.

-- Which versions of this file have run.
CREATE TABLE IF NOT EXISTS inbox_version (
    version    integer     PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT now()
);

-- Version 1 had the table processed_messages, whose ids had no source. Its rows stay, with an empty source, which stands for
-- any. A table of that name with other columns belongs to somebody else.
DO $$
DECLARE
    former regclass := to_regclass(quote_ident(current_schema()) || '.processed_messages');
    key    text;
BEGIN
    IF to_regclass(quote_ident(current_schema()) || '.inbox_message') IS NULL AND (
        SELECT count(*) FROM pg_attribute
        WHERE attrelid = former AND attname IN ('consumer', 'message_id', 'processed_at') AND NOT attisdropped
    ) = 3 THEN
        SELECT conname INTO key FROM pg_constraint WHERE conrelid = former AND contype = 'p';
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', former, key);
        EXECUTE format('ALTER TABLE %s ADD COLUMN source text NOT NULL DEFAULT %L, ADD COLUMN content bigint', former, '');
        EXECUTE format('ALTER TABLE %s ALTER COLUMN source DROP DEFAULT', former);
        EXECUTE format('ALTER TABLE %s ADD PRIMARY KEY (consumer, source, message_id)', former);
        EXECUTE format('ALTER TABLE %s RENAME TO inbox_message', former);
        EXECUTE format(
            'ALTER INDEX IF EXISTS %I.processed_messages_processed_at RENAME TO inbox_message_processed_at', current_schema()
        );
    END IF;
END
$$;

-- The events that are done. A row is written in the transaction of the event's effect.
CREATE TABLE IF NOT EXISTS inbox_message (
    consumer     text        NOT NULL,
    -- The scope of the id: the topic, or the source of a CloudEvent.
    source       text        NOT NULL,
    message_id   text        NOT NULL,
    processed_at timestamptz NOT NULL DEFAULT now(),
    -- A hash of key and value. Another event with the same id becomes a dead letter.
    content      bigint,
    PRIMARY KEY (consumer, source, message_id)
);

-- For the deletion by age. CREATE INDEX IF NOT EXISTS would wait for the transactions that write the table.
DO $$
BEGIN
    IF to_regclass(quote_ident(current_schema()) || '.inbox_message_processed_at') IS NULL THEN
        CREATE INDEX inbox_message_processed_at ON inbox_message USING brin (processed_at);
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

-- The consumer group that had the partition last, and up to where its events have ended. The offset is written before Kafka is told.
-- So when Kafka is ahead of it, this database has been put back to an older state.
ALTER TABLE inbox_partition ADD COLUMN IF NOT EXISTS consumer_group text;
ALTER TABLE inbox_partition ADD COLUMN IF NOT EXISTS next_offset bigint;

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

-- An event that waits because a process has ended so often in the middle of it.
ALTER TABLE inbox_parked ADD COLUMN IF NOT EXISTS begun integer NOT NULL DEFAULT 0;

-- The number of the next event of a key in a topic, for consumers that know repeats by number.
CREATE TABLE IF NOT EXISTS inbox_sequence (
    consumer text   NOT NULL,
    topic    text   NOT NULL,
    key      bytea  NOT NULL,
    next     bigint NOT NULL,
    PRIMARY KEY (consumer, topic, key)
);

-- The first number of the key that came. An event with a lesser one was never handled, and becomes a dead letter. Version 2 did not keep it.
ALTER TABLE inbox_sequence ADD COLUMN IF NOT EXISTS first bigint;

-- Numbers that became dead letters. They are handled when they come again.
CREATE TABLE IF NOT EXISTS inbox_sequence_dead (
    consumer text   NOT NULL,
    topic    text   NOT NULL,
    key      bytea  NOT NULL,
    number   bigint NOT NULL,
    PRIMARY KEY (consumer, topic, key, number)
);

-- Up to version 4, the topics of a consumer shared the numbers of a key. Each of them continues with these.
DO $$
DECLARE
    sequences regclass := quote_ident(current_schema()) || '.inbox_sequence';
    dead      regclass := quote_ident(current_schema()) || '.inbox_sequence_dead';
    key       text;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute WHERE attrelid = sequences AND attname = 'topic' AND NOT attisdropped) THEN
        ALTER TABLE inbox_sequence ADD COLUMN topic text;
        ALTER TABLE inbox_sequence_dead ADD COLUMN topic text;
        SELECT conname INTO key FROM pg_constraint WHERE conrelid = sequences AND contype = 'p';
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', sequences, key);
        SELECT conname INTO key FROM pg_constraint WHERE conrelid = dead AND contype = 'p';
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', dead, key);
        INSERT INTO inbox_sequence (consumer, topic, key, next, first)
            SELECT DISTINCT known.consumer, held.topic, known.key, known.next, known.first
            FROM inbox_sequence AS known JOIN inbox_partition AS held USING (consumer);
        INSERT INTO inbox_sequence_dead (consumer, topic, key, number)
            SELECT DISTINCT known.consumer, held.topic, known.key, known.number
            FROM inbox_sequence_dead AS known JOIN inbox_partition AS held USING (consumer);
        DELETE FROM inbox_sequence WHERE topic IS NULL;
        DELETE FROM inbox_sequence_dead WHERE topic IS NULL;
        ALTER TABLE inbox_sequence ALTER COLUMN topic SET NOT NULL, ADD PRIMARY KEY (consumer, topic, key);
        ALTER TABLE inbox_sequence_dead ALTER COLUMN topic SET NOT NULL, ADD PRIMARY KEY (consumer, topic, key, number);
    END IF;
END
$$;

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
    IF to_regclass(quote_ident(current_schema()) || '.inbox_done_last') IS NULL THEN
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

-- The protocol, for consumers in any language: docs/inbox-protocol.md tells the order of the calls. Each function takes the tables that
-- search_path leads to.

-- The first half of the numbers of the advisory locks of partitions; the second is the partition's id. Advisory locks are those of the
-- database, and ids are counted by the table. So services with a schema each have numbers of their own.
CREATE OR REPLACE FUNCTION inbox_lock_class() RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT hashtext('outboxd_inbox/' || to_regclass('inbox_partition')::oid::text)
$$;

-- Ends the other sessions that hold an advisory lock with this number, such as those of a process that is frozen in a transaction.
CREATE OR REPLACE FUNCTION inbox_end_holders(lock_class integer, number integer) RETURNS bigint LANGUAGE sql AS $$
    SELECT count(pg_terminate_backend(pid)) FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND pid <> pg_backend_pid()
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND classid = ($1::bigint & 4294967295)::oid AND objid = ($2::bigint & 4294967295)::oid
$$;

-- The part of inbox_take that is the same for all languages. It also returns the state of the last holder: its group, and the offsets whose
-- handlers it may have begun without ending them. Only the crate, which counts crashes, calls it by itself.
CREATE OR REPLACE FUNCTION inbox_take_over(
    consumer text, topic text, partition integer, consumer_group text,
    OUT partition_id integer, OUT epoch bigint, OUT next_offset bigint,
    OUT begun_from bigint, OUT begun_until bigint, OUT former_group text
) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('lock_timeout', '5s', true);
    -- An insert would wait for a holder that has written the row and not committed, however long it is frozen.
    IF NOT EXISTS (
        SELECT FROM inbox_partition AS held WHERE held.consumer = $1 AND held.topic = $2 AND held.partition = $3
    ) THEN
        INSERT INTO inbox_partition (consumer, topic, partition) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING;
    END IF;
    SELECT held.id INTO STRICT partition_id FROM inbox_partition AS held
    WHERE held.consumer = $1 AND held.topic = $2 AND held.partition = $3;
    BEGIN
        PERFORM pg_advisory_xact_lock(inbox_lock_class(), partition_id);
    EXCEPTION WHEN lock_not_available THEN
        PERFORM inbox_end_holders(inbox_lock_class(), partition_id);
        PERFORM pg_advisory_xact_lock(inbox_lock_class(), partition_id);
    END;
    SELECT held.consumer_group INTO former_group FROM inbox_partition AS held WHERE held.id = partition_id;
    UPDATE inbox_partition AS held
    SET epoch = held.epoch + 1, consumer_group = coalesce($4, held.consumer_group)
    WHERE held.id = partition_id RETURNING held.epoch, held.next_offset, held.begun_from, held.begun_until
    INTO inbox_take_over.epoch, inbox_take_over.next_offset, inbox_take_over.begun_from, inbox_take_over.begun_until;
END
$$;

-- Takes a partition of a topic from whoever has it, in a transaction of its own. Transactions of that consumer are waited for; after 5 s
-- their sessions are ended. next_offset is up to where its events have ended, if that is known here.
CREATE OR REPLACE FUNCTION inbox_take(
    consumer text, topic text, partition integer, consumer_group text DEFAULT NULL,
    OUT partition_id integer, OUT epoch bigint, OUT next_offset bigint
) LANGUAGE plpgsql AS $$
BEGIN
    SELECT taken.partition_id, taken.epoch, taken.next_offset FROM inbox_take_over($1, $2, $3, $4) AS taken
    INTO inbox_take.partition_id, inbox_take.epoch, inbox_take.next_offset;
    UPDATE inbox_partition AS held SET begun_from = 0, begun_until = 0 WHERE held.id = inbox_take.partition_id;
END
$$;

-- The first statement of each transaction: whether the partition is still held. If not, the transaction must be rolled back and nothing more
-- of the partition handled.
CREATE OR REPLACE FUNCTION inbox_enter(partition_id integer, epoch bigint) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(inbox_lock_class(), $1);
    RETURN EXISTS (SELECT FROM inbox_partition AS held WHERE held.id = $1 AND held.epoch = $2);
END
$$;

-- Remembers an event, and tells whether it is new. source is the scope of its id: the topic, or the source of a CloudEvent. One that another
-- transaction is just writing is waited for.
CREATE OR REPLACE FUNCTION inbox_claim(consumer text, source text, message_id text) RETURNS boolean LANGUAGE sql AS $$
    WITH new AS (
        INSERT INTO inbox_message (consumer, source, message_id) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING 1
    ) SELECT EXISTS (SELECT FROM new)
$$;

-- Up to where the events of a partition have ended: the offset behind the last one. It is part of the transaction, and written before Kafka
-- is told.
CREATE OR REPLACE FUNCTION inbox_ended(partition_id integer, epoch bigint, next_offset bigint) RETURNS void LANGUAGE sql AS $$
    UPDATE inbox_partition AS held SET next_offset = $3 WHERE held.id = $1 AND held.epoch = $2
$$;

INSERT INTO inbox_version (version) VALUES (5) ON CONFLICT DO NOTHING;
