//! SQL statements of the records. Times are those of PostgreSQL's clock.

pub(super) const SCHEMA: &str = include_str!("schema.sql");

/// Begins a record, unless it cannot be begun now; returns fence and attempts. Parameters: scope, key, owner, fingerprint, seconds of the
/// lease, seconds to store the record.
///
/// A locked row is skipped: the transaction that finishes it locks it until the effect is committed.
pub(super) const BEGIN: &str = "WITH free AS (\
     SELECT FROM idempotency_records WHERE scope = $1 AND key = $2 AND (expires_at <= clock_timestamp() \
     OR fingerprint = $4 AND (state = 'open' \
     OR state = 'started' AND (owner = $3 OR lease_end <= clock_timestamp()))) FOR UPDATE SKIP LOCKED\
 ), taken AS (\
     UPDATE idempotency_records AS r SET state = 'started', owner = $3, fingerprint = $4, answer = NULL, \
     fence = CASE WHEN r.state = 'started' AND r.owner = $3 AND r.expires_at > clock_timestamp() THEN r.fence \
     ELSE greatest(r.fence + 1, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) END, \
     attempts = CASE WHEN r.expires_at <= clock_timestamp() THEN 1 \
     WHEN r.state = 'started' AND r.owner = $3 THEN r.attempts ELSE r.attempts + 1 END, \
     lease_end = clock_timestamp() + $5::float8 * interval '1 second', \
     expires_at = clock_timestamp() + greatest($5::float8, $6::float8) * interval '1 second' \
     FROM free WHERE r.scope = $1 AND r.key = $2 RETURNING r.fence, r.attempts\
 ), new AS (\
     INSERT INTO idempotency_records (scope, key, state, owner, fence, attempts, fingerprint, lease_end, expires_at) \
     SELECT $1, $2, 'started', $3, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint, 1, $4, \
     clock_timestamp() + $5::float8 * interval '1 second', \
     clock_timestamp() + greatest($5::float8, $6::float8) * interval '1 second' \
     WHERE NOT EXISTS (SELECT FROM idempotency_records WHERE scope = $1 AND key = $2) \
     ON CONFLICT DO NOTHING RETURNING fence, attempts\
 ) SELECT fence, attempts FROM taken UNION ALL SELECT fence, attempts FROM new";

/// Reads why a record could not be begun. Parameters: scope, key, fingerprint.
pub(super) const FIND: &str = "SELECT state, fingerprint = $3, answer, \
     extract(epoch FROM lease_end - clock_timestamp())::float8 FROM idempotency_records \
     WHERE scope = $1 AND key = $2 AND expires_at > clock_timestamp()";

/// Extends a lease. Parameters: scope, key, owner, fence, seconds of the lease. A locked row is being finished, and is not changed.
pub(super) const EXTEND: &str = "WITH mine AS (\
     SELECT FROM idempotency_records WHERE scope = $1 AND key = $2 AND owner = $3 AND fence = $4 AND state = 'started' \
     AND expires_at > clock_timestamp() FOR UPDATE SKIP LOCKED\
 ) UPDATE idempotency_records AS r SET lease_end = clock_timestamp() + $5::float8 * interval '1 second', \
     expires_at = greatest(expires_at, clock_timestamp() + $5::float8 * interval '1 second') \
     FROM mine WHERE r.scope = $1 AND r.key = $2";

/// Reads the state of a record that could not be extended; returns no row if the claim has ended. Parameters: scope, key, owner, fence.
pub(super) const HELD: &str = "SELECT state FROM idempotency_records WHERE scope = $1 AND key = $2 AND owner = $3 \
     AND fence = $4 AND expires_at > clock_timestamp()";

/// Finishes a record and returns its previous state; returns no row if the claim has ended. Parameters: scope, key, owner, fence, state,
/// answer, seconds to store the record.
///
/// The row is locked until the transaction ends: no other owner can take it over.
pub(super) const FINISH: &str = "WITH mine AS (\
     SELECT state FROM idempotency_records WHERE scope = $1 AND key = $2 AND owner = $3 AND fence = $4 \
     AND expires_at > clock_timestamp() FOR UPDATE\
 ), ended AS (\
     UPDATE idempotency_records AS r SET state = $5, answer = $6, \
     expires_at = clock_timestamp() + $7::float8 * interval '1 second' \
     FROM mine WHERE mine.state = 'started' AND r.scope = $1 AND r.key = $2\
 ) SELECT state FROM mine";

/// Maximum number of records that one statement deletes.
pub(super) const PURGED_MAX: i64 = 1000;

/// Deletes expired records. Several processes may do so at the same time; each skips the rows that another one has locked. The index can be
/// used with `now()`, but not with `clock_timestamp()`.
pub(super) const PURGE: &str = "DELETE FROM idempotency_records WHERE ctid = ANY (ARRAY(\
     SELECT ctid FROM idempotency_records WHERE expires_at <= now() LIMIT $1 FOR UPDATE SKIP LOCKED))";
