-- They must not be run here either.
SET search_path = pg_catalog;

CREATE SEQUENCE public.trapped;

CREATE FUNCTION public.trap_of(what pg_catalog.text) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_catalog.nextval('public.trapped');
    RAISE EXCEPTION 'a look-alike was run: %', what;
END $$;

DO $do$
DECLARE
    f record;
    body text;
    pseudo CONSTANT oid[] := array['internal', 'cstring', '"any"', 'trigger', 'event_trigger', 'language_handler',
        'fdw_handler', 'index_am_handler', 'tsm_handler', 'table_am_handler', 'void', 'record', '_record']::regtype[]::oid[];
BEGIN
    FOR f IN SELECT p.oid, p.proname AS name, pg_get_function_arguments(p.oid) AS arguments, pg_get_function_result(p.oid) AS result
             FROM pg_proc p
             WHERE p.pronamespace = 'pg_catalog'::regnamespace AND p.prokind = 'f' AND p.provariadic = 0
                   AND NOT p.proargtypes::oid[] && pseudo AND p.prorettype <> ALL (pseudo)
    LOOP
        body := format('BEGIN PERFORM public.trap_of(%L); END', 'function ' || f.name);
        BEGIN
            EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS %s LANGUAGE plpgsql AS %L', f.name, f.arguments, f.result, body);
        EXCEPTION WHEN OTHERS THEN NULL;
        END;
    END LOOP;
    -- Better fits for functions that take anything.
    FOR f IN SELECT * FROM (VALUES ('concat_ws'), ('concat'), ('format'), ('num_nulls'), ('json_build_object')) n(name),
                           generate_series(2, 8) arguments
    LOOP
        EXECUTE format('CREATE FUNCTION public.%I(%s) RETURNS text LANGUAGE plpgsql AS %L', f.name,
            (SELECT string_agg('text', ', ') FROM generate_series(1, f.arguments)),
            format('BEGIN PERFORM public.trap_of(%L); END', 'function ' || f.name));
    END LOOP;
    FOR f IN SELECT o.oid, o.oprname AS name, format_type(o.oprleft, NULL) AS l, format_type(o.oprright, NULL) AS r,
                    format_type(o.oprresult, NULL) AS result
             FROM pg_operator o
             WHERE o.oprnamespace = 'pg_catalog'::regnamespace AND o.oprkind = 'b'
             UNION ALL
             SELECT oid, '=', format_type(oid, NULL), format_type(oid, NULL), 'boolean' FROM pg_type
             WHERE typname IN ('varchar', 'regclass')
             UNION ALL
             SELECT 1, '*', 'numeric', 'integer', 'numeric'
             UNION ALL
             SELECT 2, '||', 'varchar', 'varchar', 'text'
    LOOP
        body := format('BEGIN PERFORM public.trap_of(%L); END', 'operator ' || f.name);
        BEGIN
            EXECUTE format('CREATE FUNCTION public.trap_operator_%s(%s, %s) RETURNS %s LANGUAGE plpgsql AS %L',
                f.oid, f.l, f.r, f.result, body);
            EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.trap_operator_%s)',
                f.name, f.l, f.r, f.oid);
        EXCEPTION WHEN OTHERS THEN NULL;
        END;
    END LOOP;
    FOR f IN SELECT relname AS name FROM pg_class
             WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind IN ('r', 'v')
    LOOP
        EXECUTE format('CREATE TABLE public.%I (a_look_alike int)', f.name);
    END LOOP;
    FOR f IN SELECT unnest(array['text', 'oid', 'regclass', 'xid', 'xid8', 'pg_lsn', 'jsonb', 'timestamptz', 'tid']) AS name
    LOOP
        EXECUTE format('CREATE DOMAIN public.%I AS pg_catalog.%I CHECK (public.trap_of(%L))', f.name, f.name, 'type ' || f.name);
    END LOOP;
END $do$;

RESET search_path;
