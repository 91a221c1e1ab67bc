-- The outbox, and what the checker knows of it. Every event is also written to `truth`, in the same transaction.
CREATE TABLE outbox (
    id uuid PRIMARY KEY,
    aggregatetype text,
    aggregateid text NOT NULL,
    type text NOT NULL,
    payload text,
    stamp bigint NOT NULL
);
-- The same without an outbox: what changes is captured itself.
CREATE TABLE "order" (id uuid NOT NULL, key text PRIMARY KEY, payload text NOT NULL, stamp bigint NOT NULL);
CREATE TABLE payment (LIKE "order" INCLUDING ALL);
CREATE TABLE refund (LIKE "order" INCLUDING ALL);
ALTER TABLE "order" REPLICA IDENTITY FULL;
ALTER TABLE payment REPLICA IDENTITY FULL;
ALTER TABLE refund REPLICA IDENTITY FULL;
CREATE TABLE signals (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048));
CREATE TABLE truth (
    id text NOT NULL,
    kind text NOT NULL,
    key text NOT NULL,
    n bigint NOT NULL,
    md5 text NOT NULL,
    stamp bigint NOT NULL
);
CREATE TABLE counters (key integer PRIMARY KEY, n bigint NOT NULL DEFAULT 0);
INSERT INTO counters (key) SELECT generate_series(0, 499);
CREATE TABLE noise (id bigserial, text text);
CREATE PUBLICATION truth FOR TABLE truth WITH (publish = 'insert');

-- A thing that happens: what and how large is random(), so the caller's setseed() decides. A key's events are numbered by
-- a row that stays locked until the end of the transaction, so commits and numbers have the same order. `letters` of them
-- have no route.
CREATE FUNCTION happen(of_key integer, letters double precision, OUT id uuid, OUT kind text, OUT key text, OUT n bigint, OUT payload text, OUT stamp bigint)
LANGUAGE plpgsql AS $$
DECLARE
    dice double precision := random();
    pad integer := random() * CASE WHEN dice < 0.05 THEN 100000 WHEN dice < 0.15 THEN 8000 ELSE 300 END;
BEGIN
    id := gen_random_uuid();
    stamp := extract(epoch FROM clock_timestamp()) * 1000;
    kind := (ARRAY['order', 'payment', 'refund'])[1 + of_key % 3];
    IF dice < 0.02 AND letters < 1 THEN
        -- Nothing in it; its key tells which it is.
        key := 'empty-' || id;
        n := 0;
        payload := '';
        RETURN;
    END IF;
    UPDATE counters SET n = counters.n + 1 WHERE counters.key = of_key RETURNING counters.n INTO n;
    IF random() < letters THEN
        kind := 'letter';
    END IF;
    key := 'k' || of_key;
    payload := '{"id":"' || id || '","n":' || n || ',"secret":"canary-4711","pad":"'
        || repeat(md5(random()::text), pad / 32) || '"}';
END $$;

CREATE FUNCTION emit(count integer, keys integer[], letters double precision DEFAULT 0.005) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    it record;
BEGIN
    FOR i IN 1..count LOOP
        SELECT * INTO it FROM happen(keys[1 + floor(random() * cardinality(keys))::integer], letters);
        INSERT INTO truth (id, kind, key, n, md5, stamp) VALUES (it.id, it.kind, it.key, it.n, md5(it.payload), it.stamp);
        -- A letter is an event without a route.
        INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, stamp)
        VALUES (it.id, nullif(it.kind, 'letter'), it.key, 'Happened', it.payload, it.stamp);
    END LOOP;
END $$;

-- The same by COPY, whose rows share an LSN.
CREATE FUNCTION emit_copy(count integer, keys integer[], file text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    columns constant text := '(id, aggregatetype, aggregateid, type, payload, stamp)';
BEGIN
    CREATE TEMPORARY TABLE batch ON COMMIT DROP AS
        SELECT i, it.* FROM generate_series(1, count) AS i, happen(keys[1 + i % cardinality(keys)], 0) AS it;
    EXECUTE format('COPY (SELECT id, kind, key, ''Happened'', payload, stamp FROM batch ORDER BY i) TO %L', file);
    EXECUTE format('COPY outbox %s FROM %L', columns, file);
    INSERT INTO truth (id, kind, key, n, md5, stamp) SELECT id, kind, key, n, md5(payload), stamp FROM batch ORDER BY i;
END $$;

-- Changes rows of the tables. The truth is told before the change, under the operation and the row's id, which is a new one
-- with each insert and update. A changed key is a delete and a create.
CREATE FUNCTION change(count integer, keys integer[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    it record;
    was record;
    dice double precision;
BEGIN
    FOR i IN 1..count LOOP
        SELECT * INTO it FROM happen(keys[1 + floor(random() * cardinality(keys))::integer], 0);
        CONTINUE WHEN it.n = 0;
        dice := random();
        EXECUTE format('SELECT * FROM %I WHERE key = $1', it.kind) INTO was USING it.key;
        IF was IS NULL THEN
            PERFORM told('c', it.id, it.kind, it.key, it.n, it.payload, it.stamp);
            EXECUTE format('INSERT INTO %I (id, key, payload, stamp) VALUES ($1, $2, $3, $4)', it.kind)
                USING it.id, it.key, it.payload, it.stamp;
        ELSIF dice < 0.2 THEN
            PERFORM told('d', was.id, it.kind, it.key, it.n, was.payload, was.stamp);
            EXECUTE format('DELETE FROM %I WHERE key = $1', it.kind) USING it.key;
        ELSIF dice < 0.3 THEN
            PERFORM told('d', was.id, it.kind, it.key, it.n, was.payload, was.stamp);
            PERFORM told('c', it.id, it.kind, it.key || '-' || it.n, it.n, was.payload, it.stamp);
            EXECUTE format('UPDATE %I SET id = $1, key = $2, stamp = $3 WHERE key = $4', it.kind)
                USING it.id, it.key || '-' || it.n, it.stamp, it.key;
        ELSIF dice < 0.5 THEN
            -- A large payload stays where it is, and is not sent with the row.
            PERFORM told('u', it.id, it.kind, it.key, it.n, was.payload, it.stamp);
            EXECUTE format('UPDATE %I SET id = $1, stamp = $2 WHERE key = $3', it.kind) USING it.id, it.stamp, it.key;
        ELSE
            PERFORM told('u', it.id, it.kind, it.key, it.n, it.payload, it.stamp);
            EXECUTE format('UPDATE %I SET id = $1, payload = $2, stamp = $3 WHERE key = $4', it.kind)
                USING it.id, it.payload, it.stamp, it.key;
        END IF;
    END LOOP;
END $$;

CREATE FUNCTION told(op text, id uuid, kind text, key text, n bigint, payload text, stamp bigint) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO truth (id, kind, key, n, md5, stamp) VALUES (op || ':' || id, kind, key, n, md5(payload), stamp)
$$;
