-- The tables that are captured, and what the oracle knows: the journal, which no relay captures.

-- Each table by its name in the journal. Its rows are numbered from `base` on; `open_rows` of them are in use.
CREATE TABLE places (
    place text PRIMARY KEY,
    rel regclass,
    base integer NOT NULL,
    open_rows integer NOT NULL,
    insert_only boolean NOT NULL DEFAULT false
);
-- The number of the last change of each row. A writer locks it until the end of its transaction, so numbers are in commit order.
CREATE TABLE counters (row integer PRIMARY KEY, n bigint NOT NULL DEFAULT 0);
INSERT INTO counters (row) SELECT base + i FROM generate_series(1000, 8000, 1000) AS base, generate_series(0, 399) AS i;
CREATE TABLE journal (
    seq bigserial PRIMARY KEY,
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    place text NOT NULL,
    row bigint NOT NULL,
    n bigint NOT NULL,
    -- e: event, c, u, d: change of a row, t: the row is gone with the rest of its table, by TRUNCATE or DROP.
    effect text NOT NULL,
    digest text NOT NULL
);

CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text, aggregateid text NOT NULL, type text NOT NULL, payload text NOT NULL);
CREATE TABLE signals (id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048));
CREATE TABLE t_a (id integer PRIMARY KEY, n bigint NOT NULL, grp integer NOT NULL, k2 text NOT NULL, v text NOT NULL);
CREATE TABLE t_b (LIKE t_a INCLUDING ALL);
CREATE TABLE t_c (LIKE t_a INCLUDING ALL);
CREATE TABLE t_p (LIKE t_a INCLUDING ALL) PARTITION BY RANGE (id);
CREATE TABLE t_p0 PARTITION OF t_p FOR VALUES FROM (5000) TO (5030);
INSERT INTO places (place, rel, base, open_rows) VALUES
    ('a', 't_a', 1000, 60), ('b', 't_b', 2000, 60), ('c', 't_c', 3000, 60), ('p', 't_p', 5000, 30), ('outbox', 'outbox', 7000, 40);

-- Rows that no writer touches: only a snapshot reads them.
INSERT INTO t_a SELECT i, 1, i % 8, 'k' || i, 'still' FROM generate_series(1100, 1250) AS i;
INSERT INTO t_b SELECT i, 1, i % 8, 'k' || i, 'still' FROM generate_series(2100, 2250) AS i;
INSERT INTO t_c SELECT i, 1, i % 8, 'k' || i, 'still' FROM generate_series(3100, 3250) AS i;
UPDATE counters SET n = 1 WHERE row BETWEEN 1100 AND 1250 OR row BETWEEN 2100 AND 2250 OR row BETWEEN 3100 AND 3250;
INSERT INTO journal (place, row, n, effect, digest)
    SELECT CASE row / 1000 WHEN 1 THEN 'a' WHEN 2 THEN 'b' ELSE 'c' END, row, 1, 'c', md5('still') FROM counters WHERE n = 1;

-- The number of the next change of a row; its lock is held until the end of the transaction.
CREATE FUNCTION next_change(of_row integer) RETURNS bigint LANGUAGE sql AS $$
    UPDATE counters SET n = n + 1 WHERE row = of_row RETURNING n
$$;

CREATE FUNCTION note(of_place text, of_row integer, n bigint, effect text, digest text) RETURNS void LANGUAGE sql AS $$
    INSERT INTO journal (place, row, n, effect, digest) VALUES (of_place, of_row, n, effect, digest)
$$;

-- Changes one row of a table by the dice: inserts it if it is not there, else updates all, updates without the large value, or deletes.
CREATE FUNCTION change(of_place text, of_row integer, large double precision) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    p places;
    old text;
    number bigint;
    dice double precision := random();
    size integer := CASE WHEN random() < large THEN 900 ELSE 1 + floor(random() * 6) END;
    fresh text := (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, size));
BEGIN
    SELECT * INTO p FROM places WHERE place = of_place;
    IF p.rel IS NULL THEN
        RETURN;
    END IF;
    number := next_change(of_row);
    EXECUTE format('SELECT v FROM %s WHERE id = $1', p.rel) INTO old USING of_row;
    IF old IS NULL THEN
        PERFORM note(of_place, of_row, number, 'c', md5(fresh));
        EXECUTE format('INSERT INTO %s (id, n, grp, k2, v) VALUES ($1, $2, $3, $4, $5)', p.rel)
            USING of_row, number, of_row % 8, 'k' || of_row, fresh;
    ELSIF p.insert_only THEN
        RETURN;
    ELSIF dice < 0.2 THEN
        PERFORM note(of_place, of_row, number, 'd', '');
        EXECUTE format('DELETE FROM %s WHERE id = $1', p.rel) USING of_row;
    ELSIF dice < 0.4 THEN
        PERFORM note(of_place, of_row, number, 'u', md5(old));
        EXECUTE format('UPDATE %s SET n = $1 WHERE id = $2', p.rel) USING number, of_row;
    ELSE
        PERFORM note(of_place, of_row, number, 'u', md5(fresh));
        EXECUTE format('UPDATE %s SET n = $1, v = $2 WHERE id = $3', p.rel) USING number, fresh, of_row;
    END IF;
END $$;

-- Writes an event for a key. `kind` is NULL in an event without a route.
CREATE FUNCTION emit(of_place text, of_row integer, kind text, large double precision) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    id uuid := gen_random_uuid();
    number bigint := next_change(of_row);
    size integer := CASE WHEN random() < large THEN 900 ELSE 1 + floor(random() * 6) END;
    payload text := format('{"n":%s,"pad":"%s"}', number, (SELECT string_agg(md5(random()::text), '') FROM generate_series(1, size)));
BEGIN
    PERFORM note(of_place, of_row, number, 'e', md5(id::text || payload));
    EXECUTE format('INSERT INTO %I (id, aggregatetype, aggregateid, type, payload) VALUES ($1, $2, $3, $4, $5)', of_place)
        USING id, kind, of_row::text, 'Happened', payload;
END $$;

-- Locks a table against writers. They lock counters first and tables then, and so does this.
CREATE FUNCTION lock_place(of_place text) RETURNS regclass LANGUAGE plpgsql AS $$
DECLARE
    p places;
BEGIN
    SELECT * INTO p FROM places WHERE place = of_place;
    PERFORM FROM counters WHERE row BETWEEN p.base AND p.base + 399 ORDER BY row FOR UPDATE;
    EXECUTE format('LOCK TABLE %s', p.rel);
    RETURN p.rel;
END $$;

-- Notes that the rows of a table are gone with it.
CREATE FUNCTION note_gone(of_place text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    of_row integer;
BEGIN
    FOR of_row IN EXECUTE format('SELECT id FROM %s ORDER BY id', (SELECT rel FROM places WHERE place = of_place)) LOOP
        PERFORM note(of_place, of_row, next_change(of_row), 't', '');
    END LOOP;
END $$;

-- When the first service's publication was without a table. Writers wait at its begin and its end, so that each change is inside or outside.
CREATE TABLE gaps (
    place text PRIMARY KEY,
    began timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended timestamptz NOT NULL DEFAULT 'infinity',
    -- The operations that were published before.
    publish text NOT NULL
);

-- Takes one place out of a publication, or all of them out of one of all tables: then it publishes other operations.
CREATE PROCEDURE begin_gap(publication text, of_place text) LANGUAGE plpgsql AS $$
DECLARE
    publish text := (SELECT concat_ws(', ', CASE WHEN pubinsert THEN 'insert' END, CASE WHEN pubupdate THEN 'update' END,
                                      CASE WHEN pubdelete THEN 'delete' END, CASE WHEN pubtruncate THEN 'truncate' END)
                     FROM pg_publication WHERE pubname = publication);
    p places;
BEGIN
    FOR p IN SELECT * FROM places WHERE rel IS NOT NULL AND place <> 'polled' AND of_place IN ('', place) ORDER BY base LOOP
        PERFORM lock_place(p.place);
        IF of_place <> '' THEN
            EXECUTE format('ALTER PUBLICATION %I DROP TABLE %s', publication, p.rel);
        END IF;
        INSERT INTO gaps (place, publish) VALUES (p.place, publish);
    END LOOP;
    IF of_place = '' THEN
        EXECUTE format('ALTER PUBLICATION %I SET (publish = ''truncate'')', publication);
    END IF;
END $$;

-- What is committed before its end is before the gap.
CREATE PROCEDURE begin_slot_gap() LANGUAGE plpgsql AS $$
DECLARE
    p places;
BEGIN
    FOR p IN SELECT * FROM places WHERE rel IS NOT NULL AND place <> 'polled' ORDER BY base LOOP
        PERFORM lock_place(p.place);
        INSERT INTO gaps (place, publish) VALUES (p.place, '');
    END LOOP;
END $$;

CREATE PROCEDURE end_gap(publication text, of_place text) LANGUAGE plpgsql AS $$
DECLARE
    p places;
BEGIN
    FOR p IN SELECT * FROM places WHERE place IN (SELECT place FROM gaps) ORDER BY base LOOP
        PERFORM lock_place(p.place);
        -- A relay that was started meanwhile has added it again.
        IF of_place <> '' AND NOT EXISTS (SELECT FROM pg_publication_rel JOIN pg_publication b ON b.oid = prpubid
                                          WHERE pubname = publication AND prrelid = p.rel) THEN
            EXECUTE format('ALTER PUBLICATION %I ADD TABLE %s', publication, p.rel);
        END IF;
    END LOOP;
    IF of_place = '' THEN
        EXECUTE format('ALTER PUBLICATION %I SET (publish = %L)', publication, (SELECT publish FROM gaps LIMIT 1));
    END IF;
    UPDATE gaps SET ended = clock_timestamp();
END $$;

-- A transaction: `count` changes. Their rows are locked in one order, so that writers do not wait for each other in a circle.
CREATE FUNCTION act(count integer, large double precision, unroutable double precision) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    possible places[] := (SELECT array_agg(p ORDER BY place) FROM places p WHERE rel IS NOT NULL);
    p places;
    chosen text[] := '{}';
    rows integer[] := '{}';
BEGIN
    FOR i IN 1..count LOOP
        p := possible[1 + floor(random() * cardinality(possible))::integer];
        chosen := chosen || p.place;
        rows := rows || (p.base + floor(random() * p.open_rows)::integer);
    END LOOP;
    PERFORM FROM counters WHERE row = ANY(rows) ORDER BY row FOR UPDATE;
    FOR i IN 1..count LOOP
        IF chosen[i] = 'outbox' THEN
            PERFORM emit('outbox', rows[i], CASE WHEN random() >= unroutable THEN 'ev' END, large);
        ELSIF chosen[i] = 'polled' THEN
            PERFORM emit('polled', rows[i], 'ev', 0);
        ELSE
            PERFORM change(chosen[i], rows[i], large);
        END IF;
    END LOOP;
END $$;

-- Look-alikes of functions that every session of outboxd needs. A sequence counts their runs, also those that are
-- rolled back.
CREATE SEQUENCE look_alikes;
CREATE FUNCTION count_run() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
    -- The sessions of the test have no name.
    IF pg_catalog.current_setting('application_name') OPERATOR(pg_catalog.<>) '' THEN
        RAISE LOG 'a look-alike was run by %', pg_catalog.current_query();
        PERFORM pg_catalog.nextval('public.look_alikes');
    END IF;
EXCEPTION WHEN OTHERS THEN
    NULL;
END $$;
CREATE FUNCTION current_setting(text) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
    PERFORM public.count_run();
    RETURN pg_catalog.current_setting($1);
END $$;
CREATE FUNCTION pg_is_in_recovery() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
    PERFORM public.count_run();
    RETURN pg_catalog.pg_is_in_recovery();
END $$;
CREATE FUNCTION format_type(oid, integer) RETURNS text LANGUAGE plpgsql AS $$ BEGIN
    PERFORM public.count_run();
    RETURN pg_catalog.format_type($1, $2);
END $$;
