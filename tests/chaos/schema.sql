-- The outbox, and what the checker knows of it. Every event is also written to `truth`, in the same transaction.
CREATE TABLE outbox (
    id uuid PRIMARY KEY,
    aggregatetype text,
    aggregateid text NOT NULL,
    type text NOT NULL,
    payload text,
    stamp bigint NOT NULL
);
CREATE TABLE truth (
    id uuid NOT NULL,
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
