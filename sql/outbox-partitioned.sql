-- The outbox of sql/outbox.sql in one partition a day, for high volume: a day that is over is dropped in an instant,
-- where deleting its rows would take vacuum hours.
--
-- Run it every day (cron, pg_cron): it makes the partitions of today and of the seven days to come. To forget a day:
--     DROP TABLE public.outbox_20260131;
-- outboxd does both if it is told to, and forgets only what is sent: outboxd.cleanup.partitions, and .ahead.
-- The relay reads the table for a snapshot only, so a day may go once every consumer that could ask for a replay is
-- done with it.
--
-- The publication must publish through the root, as sql/publication.sql does.
--
-- Undo: DROP TABLE public.outbox;

CREATE TABLE IF NOT EXISTS public.outbox (
    id             uuid         NOT NULL DEFAULT gen_random_uuid(),
    aggregate_type varchar(255) NOT NULL,
    aggregate_id   varchar(255) NOT NULL,
    event_type     varchar(255) NOT NULL,
    payload        jsonb,
    headers        jsonb,
    created_at     timestamptz  NOT NULL DEFAULT now(),
    -- A key of a partitioned table has to hold the column it is partitioned by.
    PRIMARY KEY (id, created_at)
) PARTITION BY RANGE (created_at);

-- For rows that no day takes, so that an insert never fails. It should stay empty: a day cannot be made while a row of
-- that day is in here.
CREATE TABLE IF NOT EXISTS public.outbox_default PARTITION OF public.outbox DEFAULT;

DO $$
DECLARE
    today date := (now() AT TIME ZONE 'UTC')::date;
    day   date;
BEGIN
    FOR ahead IN 0..7 LOOP
        day := today + ahead;
        EXECUTE format(
            'CREATE TABLE IF NOT EXISTS public.%I PARTITION OF public.outbox FOR VALUES FROM (%L) TO (%L)',
            'outbox_' || to_char(day, 'YYYYMMDD'),
            day::timestamp AT TIME ZONE 'UTC',
            (day + 1)::timestamp AT TIME ZONE 'UTC'
        );
    END LOOP;
END
$$;
