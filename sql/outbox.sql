-- The outbox: one row is one event, inserted in the transaction that changes the data it tells about.
--
-- No column says "sent", and nothing is ever updated: the relay reads the rows from the write-ahead log, and remembers
-- in its replication slot how far it got. Rows may be deleted at any time, even in the transaction that inserted them.
--
-- The columns are found under these names without any setting. sql/outbox-debezium.sql has Debezium's names instead.
--
-- Undo: DROP TABLE public.outbox;

CREATE TABLE IF NOT EXISTS public.outbox (
    -- Header "id": what consumers recognise a repetition by.
    id             uuid         PRIMARY KEY DEFAULT gen_random_uuid(),
    -- The topic: "order" goes to outbox.event.order.
    aggregate_type varchar(255) NOT NULL,
    -- The key: one aggregate's events stay in one partition, and so in order.
    aggregate_id   varchar(255) NOT NULL,
    -- What happened: "OrderCreated". Sent when placed: table.fields.additional.placement=event_type:header
    event_type     varchar(255) NOT NULL,
    -- The value. jsonb rewrites blanks, the order of keys and doubled keys; json and text keep every byte, bytea takes
    -- Avro or Protobuf. NULL is a tombstone when route.tombstone.on.empty.payload=true.
    payload        jsonb,
    -- Trace and correlation ids, if there are any. Sent when placed: headers:header
    headers        jsonb,
    -- The record's timestamp with table.field.event.timestamp=created_at
    created_at     timestamptz  NOT NULL DEFAULT now()
)
-- Old rows are deleted in bulk; the default would let a fifth of the table be dead first.
WITH (autovacuum_vacuum_scale_factor = 0.01);

COMMENT ON TABLE public.outbox IS 'Events for Kafka, read by outboxd from the write-ahead log';
