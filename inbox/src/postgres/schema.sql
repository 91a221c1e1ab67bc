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
    UNIQUE (consumer, topic, partition)
);

-- How often a handler has begun an event without ending it. A row lives as long as the handler is at it, and longer only
-- when the process ends in the middle.
CREATE TABLE IF NOT EXISTS inbox_attempt (
    partition_id integer NOT NULL,
    "offset"     bigint  NOT NULL,
    begun        integer NOT NULL,
    PRIMARY KEY (partition_id, "offset")
);
