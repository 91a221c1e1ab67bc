//! SQL statements of the inbox. Only numbers are inserted into their texts.

/// First half of the number of the advisory lock under which tables are created, "inbx"; the second half is 0.
pub(super) const LOCK_CLASS: i32 = 0x696E_6278;

/// First half of the numbers of the topics' locks; the second half is a hash of consumer and topic.
pub(super) const TOPIC_LOCK_CLASS: i32 = 0x696E_6279;

/// First half of the numbers of the locks that identify the transactions of a connection; the second half is the connection's number.
pub(super) const CONNECTION_LOCK_CLASS: i32 = 0x696E_627A;

/// Remembers the ids, and returns those that are new. It does nothing unless the transaction was entered and the partition is still held:
/// see [`Begin`].
///
/// If another transaction is writing an id, the statement waits for it. If that one commits, the id is not new.
pub(super) const ENTER: &str = "WITH held AS (\
     SELECT WHERE current_setting('outboxd_inbox.entered', true) = ($1::int || ':' || $2::bigint)\
 ), new AS (\
     INSERT INTO inbox_message (consumer, source, message_id, content) \
     SELECT $3, asked.* FROM held, unnest($4::text[], $5::text[], $6::bigint[]) AS asked \
     ON CONFLICT DO NOTHING RETURNING source, message_id\
 ) SELECT EXISTS (SELECT FROM held), ARRAY(SELECT source FROM new), ARRAY(SELECT message_id FROM new)";

/// Remembers the ids as [`ENTER`] does, for a consumer that remembers ids without a source, from a version that had none: these count for
/// any source.
pub(super) const ENTER_UNSCOPED: &str = "WITH held AS (\
     SELECT WHERE current_setting('outboxd_inbox.entered', true) = ($1::int || ':' || $2::bigint)\
 ), new AS (\
     INSERT INTO inbox_message (consumer, source, message_id, content) \
     SELECT $3, asked.* FROM held, unnest($4::text[], $5::text[], $6::bigint[]) AS asked (source, message_id, content) \
     WHERE NOT EXISTS (SELECT FROM inbox_message AS known \
         WHERE known.consumer = $3 AND known.source = '' AND known.message_id = asked.message_id) \
     ON CONFLICT DO NOTHING RETURNING source, message_id\
 ) SELECT EXISTS (SELECT FROM held), ARRAY(SELECT source FROM new), ARRAY(SELECT message_id FROM new)";

/// Reads whether nothing can be written: on a standby, or by a setting of the operator.
pub(super) const IS_READ_ONLY: &str =
    "SELECT pg_is_in_recovery() OR current_setting('default_transaction_read_only')::bool";

/// Reads whether one of these ids is remembered with other content.
pub(super) const OTHER_CONTENT: &str = "SELECT EXISTS (\
     SELECT FROM unnest($2::text[], $3::text[], $4::bigint[]) AS asked (source, message_id, content) \
     JOIN inbox_message AS known ON known.consumer = $1 AND known.source = asked.source \
     AND known.message_id = asked.message_id WHERE known.content <> asked.content)";

/// Reads whether a consumer remembers ids without a source.
pub(super) const HAS_UNSCOPED: &str =
    "SELECT EXISTS (SELECT FROM inbox_message WHERE consumer = $1 AND source = '')";

/// Remembers the ids as [`ENTER`] does, by position. Those in $4 are certainly new; those in $5, between the positions $9 and $10, are
/// looked up.
#[cfg(feature = "position")]
pub(super) const ENTER_BY_POSITION: &str = "WITH held AS (\
     SELECT consumer, topic FROM inbox_partition WHERE id = $1::int \
     AND current_setting('outboxd_inbox.entered', true) = ($1::int || ':' || $2::bigint)\
 ), known AS (\
     SELECT message_id FROM held, unnest($5::text[]) AS message_id WHERE EXISTS (\
         SELECT FROM inbox_message AS known \
         WHERE known.consumer = $3 AND known.source IN ('', $11::text) AND known.message_id = message_id.message_id\
     ) OR EXISTS (\
         SELECT FROM inbox_partition AS other JOIN inbox_done AS done ON done.partition_id = other.id \
         WHERE other.consumer = held.consumer AND other.topic = held.topic AND done.source = $6::text \
         AND done.last >= $9::text AND done.first <= $10::text AND message_id.message_id = ANY(done.message_ids)\
     )\
 ), new AS (\
     SELECT DISTINCT message_id FROM held, unnest($4::text[] || $5::text[]) AS message_id \
     WHERE NOT EXISTS (SELECT FROM known WHERE known.message_id = message_id.message_id)\
 ), done AS (\
     INSERT INTO inbox_done (partition_id, source, first, last, message_ids) \
     SELECT $1::int, $6::text, $7::text, $8::text, array_agg(message_id) FROM new HAVING count(*) > 0\
 ) SELECT EXISTS (SELECT FROM held), ARRAY(SELECT message_id FROM new)";

/// Remembers the ids by position if all are certainly new. It is planned once; [`ENTER_BY_POSITION`] is planned each time, since the rows
/// that it looks up differ.
#[cfg(feature = "position")]
pub(super) const ENTER_FRESH: &str = "WITH held AS (\
     SELECT WHERE current_setting('outboxd_inbox.entered', true) = ($1::int || ':' || $2::bigint)\
 ), done AS (\
     INSERT INTO inbox_done (partition_id, source, first, last, message_ids) \
     SELECT $1::int, $4::text, $5::text, $6::text, $3::text[] FROM held\
 ) SELECT EXISTS (SELECT FROM held)";

/// Reads the settings of a topic that is or was read by position.
pub(super) const TOPIC: &str =
    "SELECT partitions, by_ids, source FROM inbox_topic WHERE consumer = $1 AND topic = $2";

/// Stores that a topic is read by position from now on.
pub(super) const NEW_TOPIC: &str = "INSERT INTO inbox_topic (consumer, topic, partitions) VALUES ($1, $2, $3) \
     ON CONFLICT DO NOTHING RETURNING topic";

/// Stores and returns the database that a topic's events come from. The first one that is stored stays.
#[cfg(feature = "position")]
pub(super) const SOURCE: &str = "UPDATE inbox_topic SET source = coalesce(source, $3) \
     WHERE consumer = $1 AND topic = $2 RETURNING source";

/// Reads the greatest position of a partition that is done, with its source.
pub(super) const GREATEST: &str = "SELECT source, last FROM inbox_partition AS held JOIN inbox_topic USING (consumer, topic) \
     CROSS JOIN LATERAL (SELECT max(last) AS last FROM inbox_done \
     WHERE inbox_done.partition_id = held.id AND inbox_done.source = inbox_topic.source) AS done \
     WHERE held.id = $1 AND last IS NOT NULL";

/// Reads whether a consumer has remembered events by id.
pub(super) const HAS_IDS: &str = "SELECT EXISTS (SELECT FROM inbox_message WHERE consumer = $1)";

/// Reads whether a consumer has remembered events of a topic by position.
pub(super) const HAS_POSITIONS: &str = "SELECT EXISTS (SELECT FROM inbox_done JOIN inbox_partition AS held ON id = partition_id \
     WHERE consumer = $1 AND topic = $2)";

/// Reads the partitions of a topic, in the order in which they are locked.
pub(super) const PARTITIONS: &str =
    "SELECT id, inbox_lock_class() FROM inbox_partition WHERE consumer = $1 AND topic = $2 ORDER BY id";

/// Stores that repeats are recognized by id from now on, with the reason.
pub(super) const BY_IDS: &str = "INSERT INTO inbox_topic (consumer, topic, partitions, by_ids) VALUES ($1, $2, 0, $3) \
     ON CONFLICT (consumer, topic) DO UPDATE SET by_ids = excluded.by_ids WHERE inbox_topic.by_ids IS NULL RETURNING topic";

/// Takes the partitions of a topic away from all consumers.
pub(super) const END_EPOCHS: &str =
    "UPDATE inbox_partition SET epoch = epoch + 1 WHERE consumer = $1 AND topic = $2";

/// Moves the events that are remembered by position to those that are remembered by id.
pub(super) const MOVE_TO_IDS: &str = "WITH moved AS (\
     DELETE FROM inbox_done USING inbox_partition AS held WHERE held.id = partition_id \
     AND held.consumer = $1 AND held.topic = $2 RETURNING message_ids, done_at\
 ) INSERT INTO inbox_message (consumer, source, message_id, processed_at) \
 SELECT $1, $2, id, done_at FROM moved, unnest(message_ids) AS id ON CONFLICT DO NOTHING";

/// Identifies this run of this server with these tables. A database that was restored, or that failed over to another server, has another
/// incarnation; so has a server that was restarted. Functions are named with their schema: a function of the same name in the search path
/// could have a closer signature.
macro_rules! incarnation {
    () => {
        "(SELECT pg_catalog.concat_ws('/', extract(epoch FROM pg_catalog.pg_postmaster_start_time()), database.oid, \
         pg_catalog.to_regclass('inbox_partition')::oid) \
         FROM pg_catalog.pg_database AS database WHERE datname = pg_catalog.current_database())"
    };
}

/// Reads the incarnation that a connection leads to.
pub(super) const INCARNATION: &str = concat!("SELECT ", incarnation!());

/// Takes a partition: returns the new epoch, and the range of events that the last holders may have begun without ending them. The range is
/// stored until the partition is given back: this process may end too, before it has begun them.
pub(super) const TAKE_OVER: &str = concat!(
    "SELECT partition_id, epoch, begun_from, begun_until, next_offset, former_group, ",
    incarnation!(),
    " FROM inbox_take_over($1, $2, $3, $4)"
);

/// Returns which of these partitions another session has taken since, by their indexes in the arrays, from 1.
pub(super) const LOST: &str = "SELECT number::int FROM unnest($1::int[], $2::bigint[]) WITH ORDINALITY AS known (id, epoch, number) \
     WHERE NOT EXISTS (SELECT FROM inbox_partition AS held WHERE held.id = known.id AND held.epoch = known.epoch)";

/// Stores the offsets up to which the events of partitions have ended, of those that are still held. Returns for each partition, by its
/// index in the arrays, from 1, whether it was taken in this incarnation and still has at least the offset that was stored last ($5), and
/// whether it is still held; for the others nothing is stored.
pub(super) const STORE_OFFSETS: &str = concat!(
    "SELECT number::int, CASE WHEN is_here AND is_held THEN inbox_ended(id, epoch, next_offset) END, is_here, is_held FROM (\
     SELECT ended.*, EXISTS (SELECT FROM inbox_partition AS held WHERE held.id = ended.id AND held.epoch = ended.epoch) AS is_held, \
     incarnation = ",
    incarnation!(),
    " AND NOT EXISTS (SELECT FROM inbox_partition AS held WHERE held.id = ended.id AND held.epoch = ended.epoch \
     AND coalesce(held.next_offset, 0) < ended.last_stored) \
     AS is_here FROM unnest($1::int[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[]) \
     WITH ORDINALITY AS ended (id, epoch, next_offset, incarnation, last_stored, number)) AS ended"
);

/// Stores that no handler works on an event of the partition any more.
pub(super) const GIVE_BACK: &str =
    "UPDATE inbox_partition SET begun_from = 0, begun_until = 0 WHERE id = $1 AND epoch = $2";

/// Reads the events that handlers had begun when the process ended.
pub(super) const BEGUN: &str = "SELECT \"offset\", begun FROM inbox_attempt WHERE partition_id = $1";

/// Reads the parked events of a partition, in order. The wait is NULL if a number before the event's own is missing.
pub(super) const PARKED: &str = "SELECT parked.key, \"offset\", \
     CASE WHEN number IS NOT NULL AND (next IS NULL OR number > next) THEN NULL ELSE greatest(extract(epoch FROM not_before - now()), 0)::float8 END \
     FROM inbox_parked AS parked JOIN inbox_partition AS held ON held.id = partition_id \
     LEFT JOIN inbox_sequence AS sequence ON sequence.consumer = held.consumer AND sequence.topic = held.topic AND sequence.key = parked.key \
     WHERE partition_id = $1 ORDER BY \"offset\"";

/// Reads the first parked event that waits for no number, of a key, or with an offset.
pub(super) const LOAD: &str = "SELECT \"offset\", timestamp_ms, parked.key, value, header_names, header_values, attempts, is_dead, \
     extract(epoch FROM not_before - now())::float8, begun FROM inbox_parked AS parked \
     LEFT JOIN inbox_sequence AS sequence ON sequence.consumer = $4 AND sequence.topic = $5 AND sequence.key = parked.key \
     WHERE partition_id = $1 AND ($2::bytea IS NULL OR parked.key = $2) AND ($3::bigint IS NULL OR \"offset\" = $3) \
     AND (number IS NULL OR number <= next) ORDER BY \"offset\" LIMIT 1";

/// Locks the partition for the transaction, and returns whether it is still held.
pub(super) const HELD: &str = "SELECT inbox_enter($1, $2)";

/// Parks an event. An event that is parked already stays as it is, unless it has failed since.
pub(super) const PARK: &str = "INSERT INTO inbox_parked (partition_id, \"offset\", timestamp_ms, key, value, header_names, \
     header_values, attempts, error, not_before, is_dead, begun) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, now() + $10::float8 * interval '1 second', $11, $12) \
     ON CONFLICT (partition_id, \"offset\") DO UPDATE SET attempts = excluded.attempts, error = excluded.error, \
     not_before = excluded.not_before, is_dead = excluded.is_dead, begun = excluded.begun \
     WHERE excluded.error IS NOT NULL AND excluded.attempts >= inbox_parked.attempts OR excluded.is_dead";

/// Reads up to when those parked events were parked that have one of these offsets and another timestamp or key: they are records of a
/// topic that was deleted and created again since. NULL if there is none.
pub(super) const PARKED_BEFORE: &str = "SELECT max(parked.parked_at)::text FROM inbox_parked AS parked \
     JOIN unnest($2::bigint[], $3::bigint[], $4::bytea[]) AS event (\"offset\", timestamp_ms, key) ON event.\"offset\" = parked.\"offset\" \
     WHERE parked.partition_id = $1 \
     AND (parked.timestamp_ms, parked.key) IS DISTINCT FROM (event.timestamp_ms, event.key)";

/// Moves the events that were parked until $2 to negative offsets, in their order: no record of the new topic has these, and they come
/// first.
pub(super) const MOVE_BEFORE: &str = "UPDATE inbox_parked SET \"offset\" = \"offset\" - ( \
     SELECT greatest(max(\"offset\"), 0) + 1 - least(min(\"offset\"), 0) FROM inbox_parked WHERE partition_id = $1) \
     WHERE partition_id = $1 AND parked_at <= $2::text::timestamptz";

/// Takes the partition from its consumer, which takes it again and reads the parked events.
pub(super) const TAKE_AWAY: &str = "UPDATE inbox_partition SET epoch = epoch + 1 WHERE id = $1";

/// Parks an event until the numbers before its own have arrived, unless the limit is reached. Returns the number of events of its key that
/// were already parked.
pub(super) const PARK_NUMBER: &str = "INSERT INTO inbox_parked (partition_id, \"offset\", timestamp_ms, key, value, \
     header_names, header_values, attempts, not_before, number) \
     SELECT $1::int, $2::bigint, $3::bigint, $4::bytea, $5::bytea, $6::bytea[], $7::bytea[], 0, now(), $8::bigint \
     WHERE (SELECT count(*) FROM inbox_parked WHERE partition_id = $1) < $9::bigint \
     ON CONFLICT (partition_id, \"offset\") DO UPDATE SET number = excluded.number \
     WHERE (inbox_parked.timestamp_ms, inbox_parked.key) IS NOT DISTINCT FROM (excluded.timestamp_ms, excluded.key) \
     RETURNING (SELECT count(*) FROM inbox_parked WHERE partition_id = $1 AND key = $4)";

/// Reads the next numbers of keys.
pub(super) const NEXT_NUMBERS: &str =
    "SELECT key, next, first FROM inbox_sequence WHERE consumer = $1 AND topic = $3 AND key = ANY($2)";

/// Reads the dead letters of keys that have one of these numbers, or a number that has not been reached yet.
pub(super) const DEAD_NUMBERS: &str = "SELECT dead.key, dead.number FROM inbox_sequence_dead AS dead \
     LEFT JOIN inbox_sequence AS sequence USING (consumer, topic, key) \
     WHERE consumer = $1 AND topic = $4 AND key = ANY($2) AND (dead.number = ANY($3) OR dead.number >= sequence.next)";

/// Sets a key's next number, and returns whether a parked event waits for it. Returns no row if another consumer has advanced the key.
pub(super) const ADVANCE: &str = "INSERT INTO inbox_sequence AS known (consumer, topic, key, next, first) VALUES ($1, $7, $2, $3, $6) \
     ON CONFLICT (consumer, topic, key) DO UPDATE SET next = excluded.next WHERE known.next = $4 \
     RETURNING EXISTS (SELECT FROM inbox_parked WHERE partition_id = $5 AND key = $2 AND number <= $3)";

/// Stores that a number has become a dead letter.
pub(super) const DEAD_NUMBER: &str = "INSERT INTO inbox_sequence_dead (consumer, topic, key, number) VALUES ($1, $4, $2, $3) ON CONFLICT DO NOTHING";

/// Skips the number of a dead letter if it is the next one, with the numbers directly after it that are dead letters already.
pub(super) const PASS_NUMBER: &str = "WITH dead AS (SELECT number FROM inbox_sequence_dead \
         WHERE consumer = $1 AND topic = $4 AND key = $2 AND number > $3::bigint), \
     after AS (SELECT min(number) AS next FROM (SELECT $3::bigint + 1 AS number UNION ALL SELECT number + 1 FROM dead) AS candidate \
         WHERE NOT EXISTS (SELECT FROM dead WHERE dead.number = candidate.number))\
 INSERT INTO inbox_sequence AS known (consumer, topic, key, next, first) SELECT $1, $4, $2, after.next, $3 FROM after \
     ON CONFLICT (consumer, topic, key) DO UPDATE SET next = excluded.next WHERE known.next = $3::bigint";

/// Deletes the number of a dead letter that has arrived again and is handled.
pub(super) const ALIVE_NUMBER: &str =
    "DELETE FROM inbox_sequence_dead WHERE consumer = $1 AND topic = $4 AND key = $2 AND number = $3";

/// Deletes a parked event.
pub(super) const UNPARK: &str = "DELETE FROM inbox_parked WHERE partition_id = $1 AND \"offset\" = $2";

/// Deletes a parked event, unless it is another record with this offset.
pub(super) const UNPARK_SAME: &str = "DELETE FROM inbox_parked WHERE partition_id = $1 AND \"offset\" = $2 \
     AND (timestamp_ms, key) IS NOT DISTINCT FROM ($3::bigint, $4::bytea)";

/// Reads the parked events of a key, in order, and locks them.
pub(super) const PARKED_OF_KEY: &str = "SELECT parked.partition_id, parked.\"offset\", parked.is_dead, held.topic, held.partition, \
     parked.header_names, parked.header_values, parked.key, parked.value, parked.timestamp_ms FROM inbox_parked AS parked \
     JOIN inbox_partition AS held ON held.id = parked.partition_id \
     WHERE held.consumer = $1 AND parked.key = $2 ORDER BY parked.partition_id, parked.\"offset\" FOR UPDATE OF parked";

/// Moves a parked event to another offset of its partition.
pub(super) const MOVE_PARKED: &str =
    "UPDATE inbox_parked SET \"offset\" = $3, not_before = now() WHERE partition_id = $1 AND \"offset\" = $2";

/// Maximum number of rows that one statement deletes.
pub(super) const PURGED_MAX: i64 = 1000;

/// Deletes ids that are older than $2 seconds, and returns their number. Several processes may do so at the same time; each skips the rows
/// that another one has locked.
pub(super) const PURGE: &str = "WITH deleted AS (DELETE FROM inbox_message WHERE ctid = ANY (ARRAY(\
     SELECT ctid FROM inbox_message WHERE consumer = $1 AND processed_at < now() - $2::float8 * interval '1 second' \
     LIMIT $3 FOR UPDATE SKIP LOCKED)) RETURNING 1) SELECT count(*) FROM deleted";

/// Deletes events that are remembered by position, as [`PURGE`] does.
pub(super) const PURGE_DONE: &str = "WITH deleted AS (DELETE FROM inbox_done WHERE ctid = ANY (ARRAY(\
     SELECT done.ctid FROM inbox_done AS done JOIN inbox_partition AS held ON held.id = partition_id \
     WHERE consumer = $1 AND done_at < now() - $2::float8 * interval '1 second' LIMIT $3 FOR UPDATE OF done SKIP LOCKED)) RETURNING 1) SELECT count(*) FROM deleted";

/// Ends the sessions that hold a lock, except this one.
pub(super) const END_HOLDERS: &str = "SELECT inbox_end_holders($1, $2)";

/// Reads whether the transaction was entered and the partition is still held.
pub(super) const ENTER_ONLY: &str =
    "SELECT coalesce(current_setting('outboxd_inbox.entered', true) = ($1::int || ':' || $2::bigint), false)";

/// State that is stored before handlers begin, in a transaction of its own that needs no flush: the process may end now, not PostgreSQL.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mark {
    /// Nothing, because it is stored already.
    Known,
    /// Handlers may begin the events from the offset `from` to before `until`.
    Range { from: i64, until: i64 },
    /// A handler begins this event, which was begun `begun` times before by processes that have ended since. The count is set and not
    /// incremented: if PostgreSQL becomes unavailable in the middle, the same process begins the event again. A parked event is deleted
    /// from the table when it is done.
    Event { offset: i64, begun: u32, is_parked: bool },
}

impl Mark {
    /// Returns the mark of an event that stays in the table.
    pub(crate) fn staying(self) -> Self {
        match self {
            Self::Event { offset, begun, .. } => Self::Event { offset, begun, is_parked: false },
            Self::Known | Self::Range { .. } => self,
        }
    }
}

/// Cursor that fences the transaction of an effect. Only the inbox closes it, right before its own COMMIT.
///
/// PostgreSQL reads a cursor WITH HOLD to its end when its transaction commits, and reading this one fails. So a COMMIT of a handler fails
/// and undoes everything. A ROLLBACK of a handler drops the cursor, and after a failed statement it cannot be closed. So closing it proves
/// that the transaction is the one that was begun, and that it can be committed.
const FENCE: &str = "DECLARE outboxd_inbox CURSOR WITH HOLD FOR \
     SELECT current_setting('outboxd_inbox.only_the_inbox_ends_its_transactions')";

/// Makes the session read-only outside of the current transaction, and continues in a transaction that is as writable as the current one.
///
/// So a handler that ends the inbox's transaction cannot commit its later statements, nor those of later events, one by one. A setting of
/// the operator applies to the transaction, since it began before the session's own setting.
const SHUT_SESSION: &str = "SET default_transaction_read_only TO on; COMMIT AND CHAIN";

/// Undoes [`SHUT_SESSION`], as a part of a transaction.
const OPEN_SESSION: &str = "RESET default_transaction_read_only";

/// Ends the settings of a handler that would apply to the statements of the inbox: its role and its search_path, which name other tables.
/// Constraints that wait for the end of the transaction are checked before, as the handler has set it.
pub(super) const TAKE_BACK: &str = "SET CONSTRAINTS ALL IMMEDIATE; RESET ROLE; RESET search_path";

/// Closes the fence.
pub(super) const CLOSE_FENCE: &str = "CLOSE outboxd_inbox";

/// SQLSTATE of a statement in a transaction in which another statement has failed.
pub(super) const IN_FAILED_TRANSACTION: &str = "25P02";

/// SQLSTATE of closing a cursor that does not exist.
pub(super) const NO_SUCH_CURSOR: &str = "34000";

/// Parameters of the statements that store the mark and then begin the transaction of an effect.
///
/// `inbox_enter` locks the partition and returns whether it is held, and a setting that lives as long as the transaction stores that.
/// Without it, [`ENTER`] does nothing: if a statement here failed, it would otherwise commit by itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Begin {
    pub(super) partition: i32,
    pub(super) epoch: i64,
    pub(super) connection: i32,
    pub(super) mark: Mark,
}

impl Begin {
    /// Returns all the statements as one text.
    #[cfg(feature = "sqlx")]
    pub(super) fn whole(self) -> String {
        let Self { partition, epoch, connection, .. } = self;
        format!(
            "{}; SELECT pg_advisory_xact_lock_shared({CONNECTION_LOCK_CLASS}, {connection}), \
             set_config('outboxd_inbox.entered', CASE WHEN inbox_enter({partition}, {epoch}) THEN '{partition}:{epoch}' ELSE '' END, true)",
            self.without_lock()
        )
    }

    /// Returns the statements without [`LOCK`]. The first of two transactions stores the mark.
    pub(super) fn without_lock(self) -> String {
        let held = format!("id = {} AND epoch = {}", self.partition, self.epoch);
        let mark = match self.mark {
            Mark::Known => String::new(),
            Mark::Range { from, until } => format!(
                "{NO_FLUSH}; UPDATE inbox_partition SET begun_from = {from}, begun_until = greatest(begun_until, {until}) WHERE {held}; "
            ),
            Mark::Event { offset, begun, .. } => format!(
                "{NO_FLUSH}; INSERT INTO inbox_attempt (partition_id, \"offset\", begun) \
                 SELECT id, {offset}, {begun} + 1 FROM inbox_partition WHERE {held} \
                 ON CONFLICT (partition_id, \"offset\") DO UPDATE SET begun = excluded.begun; "
            ),
        };
        format!("{BEGIN_OWN}; {mark}{SHUT_SESSION}; {FENCE}")
    }
}

/// Second half of `Begin::whole`, for drivers that send it together with the other statements and prepare it once.
pub(super) const LOCK: &str = "SELECT pg_advisory_xact_lock_shared($3, $4), set_config('outboxd_inbox.entered', \
     CASE WHEN inbox_enter($1, $2) THEN $1::int || ':' || $2::bigint ELSE '' END, true)";

/// Returns the statements that follow the handlers: they prove that the transaction is still the inbox's and has not failed, and commit it.
/// They are one text, of which PostgreSQL runs nothing after the first error.
pub(super) fn commit(partition: i32, mark: Mark) -> String {
    let end = match mark {
        Mark::Known | Mark::Range { .. } => String::new(),
        Mark::Event { offset, is_parked: false, .. } => format!("{}; ", end(partition, offset)),
        Mark::Event { offset, is_parked: true, .. } => format!(
            "{}; DELETE FROM inbox_parked WHERE partition_id = {partition} AND \"offset\" = {offset}; ",
            end(partition, offset)
        ),
    };
    format!("{CLOSE_FENCE}; {TAKE_BACK}; {end}{OPEN_SESSION}; COMMIT")
}

/// Undoes the transaction of an effect. A setting counts from the next transaction on, so it is changed in one of its own.
pub(super) const ROLL_BACK: &str = "ROLLBACK; BEGIN; RESET default_transaction_read_only; COMMIT";

/// Lets the end of the transaction not wait for the disk.
const NO_FLUSH: &str = "SET LOCAL synchronous_commit TO off";

/// Begins a transaction of the inbox's own.
pub(super) const BEGIN_OWN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// Returns the statements for handlers that have failed: they undo the effect, and store that the handlers have ended.
pub(super) fn roll_back(partition: i32, mark: Mark) -> String {
    match mark {
        Mark::Known | Mark::Range { .. } => ROLL_BACK.to_owned(),
        Mark::Event { offset, .. } => {
            format!("{ROLL_BACK}; BEGIN; {NO_FLUSH}; {}; COMMIT", end(partition, offset))
        }
    }
}

/// Returns the statement that stores that the handler of this event has ended.
pub(super) fn end(partition: i32, offset: i64) -> String {
    format!("DELETE FROM inbox_attempt WHERE partition_id = {partition} AND \"offset\" = {offset}")
}
