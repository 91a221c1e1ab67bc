-- What was asked for, and what came of it.
CREATE TABLE IF NOT EXISTS idempotency_records (
    scope       text        NOT NULL,
    key         text        NOT NULL,
    state       text        NOT NULL,
    owner       text        NOT NULL,
    fence       bigint      NOT NULL,
    attempts    integer     NOT NULL,
    fingerprint bytea       NOT NULL,
    lease_end   timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    answer      bytea,
    PRIMARY KEY (scope, key)
);

-- For what is deleted by age. CREATE INDEX IF NOT EXISTS would wait for the transactions that write the table.
DO $$
BEGIN
    IF to_regclass('idempotency_records_expires_at') IS NULL THEN
        CREATE INDEX idempotency_records_expires_at ON idempotency_records USING brin (expires_at);
    END IF;
END
$$;

-- The greatest fence that a resource has seen.
CREATE TABLE IF NOT EXISTS fences (
    resource text   PRIMARY KEY,
    fence    bigint NOT NULL
);
