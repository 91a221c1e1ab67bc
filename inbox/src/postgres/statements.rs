//! The SQL of the inbox. What is put into a text is numbers only.

use std::fmt::Write as _;

/// The first half of the advisory locks' numbers, "inbx"; the second is the partition's `id`.
pub(super) const LOCK_CLASS: i32 = 0x696E_6278;

/// Remembers the ids, and tells which of them are new. It does nothing unless the transaction was entered, and unless the
/// partition is still held: see [`begin`].
///
/// An id that another transaction is just writing is waited for. If that one commits, the id is not new.
pub(super) const ENTER: &str = "WITH held AS (\
     SELECT FROM inbox_partition WHERE id = $1 AND epoch = $2::bigint \
     AND current_setting('outboxd_inbox.entered', true) = ($2::bigint)::text\
 ), new AS (\
     INSERT INTO processed_messages (consumer, message_id) \
     SELECT $3, message_id FROM held, unnest($4::text[]) AS message_id ON CONFLICT DO NOTHING RETURNING message_id\
 ) SELECT EXISTS (SELECT FROM held), ARRAY(SELECT message_id FROM new)";

/// Takes a partition for a consumer: its `id`.
pub(super) const FIND: &str = "WITH new AS (\
     INSERT INTO inbox_partition (consumer, topic, partition) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING id\
 ) SELECT id FROM new UNION ALL \
 SELECT id FROM inbox_partition WHERE consumer = $1 AND topic = $2 AND partition = $3";

/// The next epoch.
pub(super) const NEXT_EPOCH: &str =
    "UPDATE inbox_partition SET epoch = epoch + 1 WHERE id = $1 RETURNING epoch";

/// The events at which handlers were when the process ended.
pub(super) const BEGUN: &str = "SELECT \"offset\", begun FROM inbox_attempt WHERE partition_id = $1";

/// Ids that are deleted with one statement.
pub(super) const PURGED_MAX: i64 = 1000;

/// Deletes ids that are older than so many seconds. Others may be at the same; each takes what the others have not.
pub(super) const PURGE: &str = "DELETE FROM processed_messages WHERE ctid = ANY (ARRAY(\
     SELECT ctid FROM processed_messages WHERE consumer = $1 AND processed_at < now() - $2::float8 * interval '1 second' \
     LIMIT $3 FOR UPDATE SKIP LOCKED))";

/// Ends the sessions that hold a partition's lock, except this one.
pub(super) const END_HOLDERS: &str = "SELECT count(pg_terminate_backend(pid)) FROM pg_locks WHERE locktype = 'advisory' \
     AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
     AND classid::bigint = $1::int AND objid::bigint = $2::int AND granted AND pid <> pg_backend_pid()";

/// Writes down that handlers begin these events, in a transaction that needs no flush: it is the process that may end now,
/// not PostgreSQL. Then begins the transaction of the effect.
///
/// `begun` is how often they were begun before, by processes that have ended since. It is set and not counted up here: when
/// PostgreSQL goes away in the middle, the same process begins them again.
///
/// The setting lives as long as this transaction. Without it, [`ENTER`] does nothing: had something here failed, it would
/// otherwise commit by itself.
pub(super) fn begin(partition: i32, epoch: i64, offsets: &[i64], begun: u32) -> String {
    format!(
        "BEGIN; SET LOCAL synchronous_commit TO off; \
         INSERT INTO inbox_attempt (partition_id, \"offset\", begun) \
         SELECT id, \"offset\", {begun} + 1 FROM inbox_partition, unnest('{{{offsets}}}'::bigint[]) AS \"offset\" \
         WHERE id = {partition} AND epoch = {epoch} \
         ON CONFLICT (partition_id, \"offset\") DO UPDATE SET begun = excluded.begun; COMMIT; \
         BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock_shared({LOCK_CLASS}, {partition}); \
         SET LOCAL outboxd_inbox.entered = '{epoch}'",
        offsets = list(offsets)
    )
}

/// The handlers have ended: commits the effect.
pub(super) fn commit(partition: i32, offsets: &[i64]) -> String {
    format!("{}; COMMIT", end(partition, offsets))
}

/// The handlers have failed: the effect is undone, and that they have ended is written down.
pub(super) fn roll_back(partition: i32, offsets: &[i64]) -> String {
    format!("ROLLBACK; BEGIN; SET LOCAL synchronous_commit TO off; {}; COMMIT", end(partition, offsets))
}

/// The handlers are at these events no longer.
pub(super) fn end(partition: i32, offsets: &[i64]) -> String {
    let offsets = list(offsets);
    format!(
        "DELETE FROM inbox_attempt WHERE partition_id = {partition} AND \"offset\" = ANY ('{{{offsets}}}'::bigint[])"
    )
}

fn list(offsets: &[i64]) -> String {
    offsets.iter().enumerate().fold(String::new(), |mut text, (index, offset)| {
        // Writing to a string does not fail.
        write!(text, "{}{offset}", if index == 0 { "" } else { "," }).ok();
        text
    })
}
