-- The role that the relay logs in as, with the least it needs. Run as a superuser in the outbox's database, after the
-- table is there. Then give it a password, which this file does not know:
--     \password outboxd
--
-- pg_hba.conf needs an ordinary line for it. The word "replication" there means physical replication and is not needed:
--     host  orders  outboxd  10.0.0.0/8  scram-sha-256
--
-- Undo: REVOKE ALL ON public.outbox FROM outboxd; REVOKE ALL ON SCHEMA public FROM outboxd;
--       REVOKE ALL ON DATABASE orders FROM outboxd; DROP ROLE outboxd;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'outboxd') THEN
        CREATE ROLE outboxd LOGIN;
    END IF;
    -- What makes and reads the slot. It is a strong right: whoever has it can read every change of every table through
    -- a slot and a publication of their own. On Amazon RDS: GRANT rds_replication TO outboxd;
    ALTER ROLE outboxd REPLICATION;
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO outboxd', current_database());
END
$$;

-- Streaming reads the log, not the table, and the catalogs are open to all. SELECT is for what looks at rows: a
-- snapshot, outboxd verify, and outboxd check, which learns the topics from them. Leave it out if you need none of them.
GRANT USAGE ON SCHEMA public TO outboxd;
GRANT SELECT ON public.outbox TO outboxd;

-- Not granted: to own the table or to CREATE in the database, which making a publication takes. The table's owner runs
-- sql/publication.sql once instead.
