use std::time::Instant;

use pg_replication::wal::Lsn;

use crate::lab::Lab;
use crate::options::Options;

/// Approximate size of the payload without its filling.
const PAYLOAD_BYTES_BESIDE: u64 = 190;

/// Committed rows.
#[derive(Debug)]
pub(crate) struct Backlog {
    /// Behind it.
    pub(crate) end: Lsn,
    /// The records that it becomes, topic by topic.
    pub(crate) records: Vec<u64>,
}

/// Commits the rows.
pub(crate) fn write(lab: &Lab, options: &Options) -> Backlog {
    let Options { rows, per_transaction, other_rows, payload, .. } = options;
    let start = Instant::now();
    let filling = payload.saturating_sub(PAYLOAD_BYTES_BESIDE);
    lab.db.execute("SET synchronous_commit = off");
    let script = lab.tables.map(|tables| tables.script(options, filling));
    lab.db.execute(&script.unwrap_or_else(|| {
        format!(
            "DO $$ DECLARE filling text := repeat('x', {filling}); BEGIN
           FOR low IN 0..{rows}::bigint - 1 BY {per_transaction} LOOP
             INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload)
             SELECT gen_random_uuid(), 'order', 'o-' || n % 1000, 'OrderCreated', {PAYLOAD}
             FROM generate_series(low, least(low + {per_transaction}, {rows}) - 1) AS n;
             IF {other_rows} > 0 THEN
               INSERT INTO other (body) SELECT filling FROM generate_series(1, {other_rows});
             END IF;
             COMMIT;
           END LOOP;
         END $$"
        )
    }));
    lab.db.execute("RESET synchronous_commit");
    let end = lab.end();
    lab.db.execute("VACUUM ANALYZE");
    let took = start.elapsed().as_secs_f64();
    println!(
        "backlog: {rows} rows with a payload of about {payload} B, {per_transaction} a transaction, each with \
         {other_rows} rows of another table; written in {took:.0} s"
    );
    let records = lab.tables.map_or_else(|| vec![*rows], |tables| tables.records(options));
    Backlog { end, records }
}

const PAYLOAD: &str = "jsonb_build_object('n', n, 'paid', true, 'total', n / 100.0, 'customer',
    jsonb_build_object('id', n % 100, 'name', 'Somebody'), 'lines', jsonb_build_array(
        jsonb_build_object('sku', 'tea', 'price', 7.25, 'quantity', 2),
        jsonb_build_object('sku', 'honey', 'price', 5.50, 'quantity', 1)), 'filling', filling)";
