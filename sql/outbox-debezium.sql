-- The outbox under the column names that Debezium's EventRouter expects when nothing is configured. For applications
-- that write such a table already; sql/outbox.sql explains the columns.
--
-- Undo: DROP TABLE public.outbox;

CREATE TABLE IF NOT EXISTS public.outbox (
    id            uuid         PRIMARY KEY,
    aggregatetype varchar(255) NOT NULL,
    aggregateid   varchar(255) NOT NULL,
    type          varchar(255) NOT NULL,
    payload       jsonb,
    -- Optional. The record's timestamp with table.field.event.timestamp=timestamp. Debezium itself takes no timestamptz
    -- here; outboxd takes both.
    "timestamp"   timestamp    NOT NULL DEFAULT (now() AT TIME ZONE 'UTC'),
    -- Optional. Sent when placed: table.fields.additional.placement=headers:header
    headers       jsonb
)
WITH (autovacuum_vacuum_scale_factor = 0.01);

COMMENT ON TABLE public.outbox IS 'Events for Kafka, read by outboxd from the write-ahead log';
