-- Numbers the events of each aggregate 1, 2, 3 … without gaps, so that a consumer can tell a missing or repeated event
-- from a new one. Run after sql/outbox.sql; rows that are there already stay without a number.
--
-- Writers of one aggregate wait for each other until they commit, so the numbers are in commit order. Writers of
-- different aggregates do not wait.
--
-- Sent when placed: table.fields.additional.placement=sequence_number:header
--
-- Undo: DROP TRIGGER outbox_number ON public.outbox; DROP FUNCTION public.outbox_number();
--       ALTER TABLE public.outbox DROP COLUMN sequence_number; DROP TABLE public.outbox_sequence;

CREATE TABLE IF NOT EXISTS public.outbox_sequence (
    aggregate_type varchar(255) NOT NULL,
    aggregate_id   varchar(255) NOT NULL,
    last_number    bigint       NOT NULL,
    PRIMARY KEY (aggregate_type, aggregate_id)
)
-- Only last_number changes, which no index covers: with room on the page the update touches no index.
WITH (fillfactor = 50);

ALTER TABLE public.outbox ADD COLUMN IF NOT EXISTS sequence_number bigint;

-- As its owner, so that an application needs no right on the counters. The fixed search_path is what makes that safe.
CREATE OR REPLACE FUNCTION public.outbox_number() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    INSERT INTO public.outbox_sequence AS counter (aggregate_type, aggregate_id, last_number)
    VALUES (NEW.aggregate_type, NEW.aggregate_id, 1)
    ON CONFLICT (aggregate_type, aggregate_id) DO UPDATE SET last_number = counter.last_number + 1
    RETURNING last_number INTO NEW.sequence_number;
    RETURN NEW;
END
$$;

CREATE OR REPLACE TRIGGER outbox_number BEFORE INSERT ON public.outbox
FOR EACH ROW EXECUTE FUNCTION public.outbox_number();
