//! Cases against PostgreSQL and Kafka. Many name the same topics, so that those of one broker run one after another and each
//! begins with an empty broker. `OUTBOXD_RECORD=1` records the messages of PostgreSQL.

use std::env;

use serde_json::json;

use super::case::Case;
use super::cases::{self, File};
use super::configuration::{beside_a_file, config};
use super::outcome::{compare, now_ms};
use super::replay;
use crate::support::kafka::Kafka;
use crate::support::outbox::{Outbox, config_of};
use crate::support::postgres::postgres18;
use crate::support::recording::recorder::Recorder;
use crate::support::relay::{Config, Relay};
use crate::support::wait::{DEADLINE, eventually};

/// The number of brokers that share the cases.
const SHARES: usize = 4;

/// Runs the cases of a share.
pub(super) fn run_share(share: usize) {
    let files: Vec<File> = cases::end_to_end().into_iter().skip(share).step_by(SHARES).collect();
    if files.is_empty() {
        return;
    }
    let kafka = Kafka::start();
    let mut failures = Vec::new();
    for file in files {
        let case = file.read();
        if let Err(difference) = run(&file.name, &case, &kafka) {
            failures.push(format!("{} ({})\n{difference}", file.name, case.source));
        }
    }
    assert!(failures.is_empty(), "{} cases failed:\n\n{}", failures.len(), failures.join("\n\n"));
}

fn run(name: &str, case: &Case, kafka: &Kafka) -> Result<(), String> {
    kafka.delete_topics();
    let db = Outbox::create_bare(postgres18(), &case.schema);
    db.execute(case.before.as_deref().unwrap_or_default());
    for topic in &case.topics {
        kafka.create_topic(topic, case.partitions, &[]);
    }
    let started_ms = now_ms();
    let recorder = env::var_os("OUTBOXD_RECORD").map(|_| Recorder::start(db.address().port));
    let mut relay = start(case, &base(&db, kafka, recorder.as_ref()));
    eventually(DEADLINE, "the relay streams or has left", || !relay.is_running() || is_streaming(&db));
    if relay.is_running() {
        // On a quiet server the first row might be written where the snapshot was taken.
        db.query("SELECT pg_create_restore_point('the snapshot lies before')::text", &[]);
        for sql in &case.tx {
            db.execute(sql);
            if case.waits {
                wait_until_confirmed(&db, &mut relay);
            }
        }
    }
    let exit = match case.fails {
        Some(_) => relay.wait_for_exit(DEADLINE),
        None => {
            wait_until_confirmed(&db, &mut relay);
            relay.terminate();
            relay.wait_for_exit(DEADLINE)
        }
    };
    let records = kafka.all_records();
    let outcome = compare(case, exit, &records, started_ms);
    if let Some(recorder) = recorder.filter(|_| outcome.is_ok()) {
        replay::write(name, case, recorder.finish(), db.address(), started_ms);
    }
    outcome.map_err(|difference| format!("{difference}\n{}", relay.stderr()))
}

/// Returns the addresses and names of a run. A recorder reads plain text only.
fn base(db: &Outbox, kafka: &Kafka, recorder: Option<&Recorder>) -> Config {
    let mut config = config_of(db.address(), &kafka.bootstrap());
    if let Some(recorder) = recorder {
        config.insert("database.port".to_owned(), json!(recorder.port().to_string()));
        config.insert("database.sslmode".to_owned(), json!("disable"));
    }
    config
}

fn start(case: &Case, base: &Config) -> Relay {
    let Some(properties) = &case.properties else { return Relay::start(&config(case, base)) };
    let ours = beside_a_file(base, &["database.sslmode"]);
    let arguments: Vec<&str> = ours.iter().flat_map(|setting| ["-X", setting]).collect();
    Relay::start_from(&[("application.properties", properties)], &arguments, &[])
}

/// Returns whether a relay streams, like [`Outbox::wait_until_streaming`]. The slot is found by its database, since its
/// name may be the default one. Temporary slots are ignored: one belongs to a snapshot, and a TRUNCATE would remove
/// rows that the snapshot has not read yet, since PostgreSQL's TRUNCATE ignores snapshots.
fn is_streaming(db: &Outbox) -> bool {
    let sql = "SELECT FROM pg_replication_slots JOIN pg_stat_replication ON pid = active_pid
               WHERE database = current_database() AND NOT temporary AND state IN ('catchup', 'streaming')";
    !db.query(sql, &[]).is_empty()
}

fn wait_until_confirmed(db: &Outbox, relay: &mut Relay) {
    let target = db.current_wal_lsn().to_string();
    let sql = "SELECT FROM pg_replication_slots
               WHERE database = current_database() AND confirmed_flush_lsn >= $1::text::pg_lsn";
    eventually(DEADLINE, "everything is confirmed", || {
        !relay.is_running() || !db.query(sql, &[&target]).is_empty()
    });
}
