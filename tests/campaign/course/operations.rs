//! Operations on the tables under load. TRUNCATE and DROP note the rows that they remove in the journal.

use std::fs;
use std::time::{Duration, Instant};

use crate::plan::feature::Feature;
use crate::support::outbox::Outbox;
use crate::support::relay::{Config, Relay};
use crate::support::session::Session;
use crate::support::wait::{DEADLINE, let_pass};
use crate::support::watcher::Watcher;

const RETRY_PAUSE: Duration = Duration::from_millis(50);
const SIGNAL: &str = "INSERT INTO signals VALUES (gen_random_uuid(), 'execute-snapshot',
    '{\"data-collections\": [\"public.t_a\", \"public.t_b\"], \"type\": \"TYPE\"}')";

/// Carries out an operation, with retries after deadlocks. Skips a table that an earlier operation has dropped.
pub(crate) fn carry_out(feature: Feature, db: &Outbox) {
    statements(feature).iter().for_each(|sql| retried(db, sql));
}

/// Runs a statement again as long as it fails.
pub(crate) fn retried(db: &Outbox, sql: &str) {
    let (session, began) = (Session::new(db.address().clone()), Instant::now());
    while let Err(error) = session.try_execute(sql) {
        session.disconnect();
        assert!(began.elapsed() < DEADLINE, "{error:?}: {sql}");
        let_pass(RETRY_PAUSE);
    }
}

/// Starts `outboxd cleanup`, which may wait until a fault is over, and returns it with the folder of its configuration.
pub(crate) fn clean_up(config: &Config) -> (Relay, Watcher) {
    let folder = Watcher::new("outboxd-campaign-");
    let file = folder.folder().join("config.json");
    fs::write(&file, serde_json::to_vec(config).unwrap()).unwrap();
    let file = file.to_str().unwrap();
    (Relay::command(&["cleanup", "-c", file, "--execute", "--also-before-slot", "--yes"]), folder)
}

fn statements(feature: Feature) -> Vec<String> {
    let one = |sql: &str| vec![sql.to_owned()];
    match feature {
        Feature::Created => one("CREATE TABLE t_new (LIKE t_a INCLUDING ALL); INSERT INTO places VALUES ('new', 't_new', 4000, 60)"),
        Feature::ColumnAdded => one("ALTER TABLE t_a ADD COLUMN extra integer DEFAULT 7"),
        Feature::TypeChanged => one("ALTER TABLE t_b ALTER COLUMN grp TYPE bigint"),
        Feature::Renamed => if_there("c", "ALTER TABLE t_c RENAME TO t_renamed"),
        // A table that was swapped has its constraint by another name.
        Feature::NewPrimaryKey => one(
            "DO $$ BEGIN EXECUTE (SELECT format('ALTER TABLE t_b DROP CONSTRAINT %I, ADD PRIMARY KEY (id, k2)', conname)
             FROM pg_constraint WHERE conrelid = 't_b'::regclass AND contype = 'p'); END $$",
        ),
        Feature::Truncated => one("SELECT lock_place('b'); SELECT note_gone('b'); TRUNCATE t_b"),
        Feature::Swapped => one(
            "SELECT lock_place('b'); CREATE TABLE t_b_next (LIKE t_b INCLUDING ALL); ALTER TABLE t_b_next REPLICA IDENTITY FULL;
             INSERT INTO t_b_next SELECT * FROM t_b; ALTER TABLE t_b RENAME TO t_b_old; ALTER TABLE t_b_next RENAME TO t_b;
             UPDATE places SET rel = 't_b' WHERE place = 'b'",
        ),
        Feature::PartitionAttached => one(
            "CREATE TABLE t_p1 (LIKE t_p INCLUDING ALL);
             INSERT INTO t_p1 SELECT r, next_change(r), r % 8, 'k' || r, 'attached' FROM generate_series(5030, 5039) AS r;
             INSERT INTO journal (place, row, n, effect, digest) SELECT 'p', id, n, 'c', md5('attached') FROM t_p1;
             ALTER TABLE t_p ATTACH PARTITION t_p1 FOR VALUES FROM (5030) TO (5060); UPDATE places SET open_rows = 60 WHERE place = 'p'",
        ),
        Feature::Inherited => {
            one("CREATE TABLE t_child () INHERITS (t_a); INSERT INTO places VALUES ('child', 't_child', 6000, 60, true)")
        }
        Feature::Dropped => if_there(
            "c",
            "PERFORM lock_place('c'); PERFORM note_gone('c');
             EXECUTE format('DROP TABLE %s', (SELECT rel FROM places WHERE place = 'c')); UPDATE places SET rel = NULL WHERE place = 'c'",
        ),
        Feature::Rewritten => one("VACUUM FULL t_a"),
        Feature::IncrementalSnapshot => one(&SIGNAL.replace("TYPE", "incremental")),
        Feature::BlockingSnapshot => one(&SIGNAL.replace("TYPE", "blocking")),
        Feature::SnapshotPaused => vec![
            SIGNAL.replace("TYPE", "incremental"),
            "INSERT INTO signals VALUES (gen_random_uuid(), 'pause-snapshot', '{}')".to_owned(),
            "SELECT pg_sleep(0.6)".to_owned(),
            "INSERT INTO signals VALUES (gen_random_uuid(), 'resume-snapshot', '{}')".to_owned(),
        ],
        _ => Vec::new(),
    }
}

fn if_there(place: &str, body: &str) -> Vec<String> {
    vec![format!(
        "DO $$ BEGIN IF (SELECT rel FROM places WHERE place = '{place}') IS NOT NULL THEN {body}; END IF; END $$"
    )]
}
