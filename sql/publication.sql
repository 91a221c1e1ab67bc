-- What the server sends to the relay: inserts into the outbox and nothing else. Updates and deletes of its rows never
-- leave the server, and need no replica identity. Run as the table's owner with CREATE on the database.
--
-- "dbz_publication" is the default of publication.name. A publication of that name that is there already is kept, and
-- gets the table if it lacks it.
--
-- publish_via_partition_root matters when the outbox is partitioned: rows come under the name of public.outbox,
-- whichever partition they are in.
--
-- The publication has to be there before the slot is made: the stream cannot be read otherwise. Rows that were written
-- before the slot are sent by a snapshot (snapshot.mode=initial) or not at all (no_data).
--
-- Undo: DROP PUBLICATION dbz_publication;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_publication WHERE pubname = 'dbz_publication') THEN
        CREATE PUBLICATION dbz_publication FOR TABLE public.outbox
        WITH (publish = 'insert', publish_via_partition_root = true);
    ELSIF NOT EXISTS (
        SELECT FROM pg_publication AS publication
        LEFT JOIN pg_publication_rel AS member
            ON member.prpubid = publication.oid AND member.prrelid = 'public.outbox'::regclass
        WHERE publication.pubname = 'dbz_publication' AND (publication.puballtables OR member.oid IS NOT NULL)
    ) THEN
        ALTER PUBLICATION dbz_publication ADD TABLE public.outbox;
    END IF;
END
$$;
