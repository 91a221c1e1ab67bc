//! `outboxd cleanup` with an archive, while another session alters the table between two of its batches: no row is
//! deleted that is not archived with the columns that it had. Each test has servers of its own, as those of `cleanup`.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use outboxd::internals::throwaway::ThrowawayPostgres;
use parquet::file::reader::{FileReader as _, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use crate::support::kafka::kafka;
use crate::support::outbox::{Event, Outbox};
use crate::support::postgres::start;
use crate::support::relay::{Config, Relay, with};
use crate::support::session::Session;
use crate::support::wait::{DEADLINE, eventually, eventually_eq, let_pass};
use crate::support::watcher::Watcher;

/// Rows that there are before a pass, and how many of them go before the table is altered.
const ROWS: u32 = 40;
const GONE: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum To {
    Table,
    Lines,
    Parquet,
}

/// A row of an archive: its id, and what is in the column that the test is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kept {
    id: String,
    value: Option<String>,
}

/// An outbox whose rows are sent and not taken away yet.
struct Place {
    db: Outbox,
    config: Config,
    folder: Watcher,
    to: To,
    all: BTreeSet<String>,
}

impl Place {
    fn build(server: &ThrowawayPostgres, to: To) -> (Self, Relay) {
        let db = Outbox::create(server);
        db.execute(
            "ALTER TABLE outbox ADD COLUMN note text DEFAULT 'old'; CREATE TABLE archive (LIKE outbox)",
        );
        let settings = [
            // So that the table is altered in between.
            ("outboxd.cleanup.batch.rows", "1"),
            ("outboxd.cleanup.batch.pause.ms", "100"),
            ("status.update.interval.ms", "100"),
        ];
        let config = with(db.config(kafka()), &settings);
        let folder = Watcher::new("outboxd-cleanup-");
        fs::write(folder.folder().join("outbox.json"), serde_json::to_vec(&config).unwrap()).unwrap();
        let relay = Relay::start(&config);
        db.wait_until_streaming();
        let events: Vec<_> = (0..ROWS).map(|n| Event::new("order", &n.to_string(), "Made", "{}")).collect();
        let all = events.iter().map(|event| event.id.to_string()).collect();
        db.insert(&events);
        db.wait_until_confirmed();
        (Self { db, config, folder, to, all }, relay)
    }

    fn rows(&self) -> usize {
        self.db.query("SELECT FROM outbox", &[]).len()
    }

    fn cleanup(&self) -> Relay {
        let (file, into) =
            (self.folder.folder().join("outbox.json"), self.folder.folder().display().to_string());
        let archive: &[&str] = match self.to {
            To::Table => &["--archive-table", "archive"],
            To::Lines => &["--archive-folder", &into],
            To::Parquet => &["--archive-folder", &into, "--archive-format", "parquet"],
        };
        let command =
            ["cleanup", "-c", file.to_str().unwrap(), "--execute", "--also-before-slot", "--yes", "--json"];
        Relay::command(&[&command[..], archive].concat())
    }

    /// Alters the table when some rows are gone; how many were still there. Nothing can go in between.
    fn alter(&self, how: &str) -> usize {
        let before = self.all.len() - GONE;
        eventually(DEADLINE, "some rows are gone", || self.rows() <= before);
        let session = Session::new(self.db.address().clone());
        session.execute(&format!("BEGIN; {how}"));
        let left = session.query("SELECT FROM outbox", &[]).len();
        session.execute("COMMIT");
        assert!(left > 0, "the pass was too fast");
        left
    }

    /// Alters the table during a cleanup and returns the number of rows that still existed. Lines name their columns
    /// themselves; a cleanup with another archive ends there.
    #[track_caller]
    fn altered_in_between(&self, how: &str) -> usize {
        let mut pass = self.cleanup();
        let left = self.alter(how);
        let (exit, stderr) = (pass.wait_for_exit(DEADLINE), pass.stderr());
        if self.to == To::Lines {
            assert_eq!(exit, 0, "{stderr}");
            return left;
        }
        let changed = stderr.contains("the columns of the table have changed");
        assert!(exit == 1 && changed, "{:?}: {stderr}", self.to);
        assert_eq!(self.rows(), left, "{:?}: {stderr}", self.to);
        left
    }

    /// Deletes the remaining rows with another cleanup.
    #[track_caller]
    fn finish(&self) {
        let mut pass = self.cleanup();
        assert_eq!(pass.wait_for_exit(DEADLINE), 0, "{:?}: {}", self.to, pass.stderr());
        assert_eq!(self.rows(), 0, "{:?}", self.to);
    }

    /// Returns the archived rows.
    fn kept(&self, column: &str) -> Vec<Kept> {
        let object = |text: &str| {
            let row: Value = serde_json::from_str(text).unwrap();
            let text = |name: &str| row[name].as_str().map(str::to_owned);
            Kept { id: text("id").unwrap(), value: text(column) }
        };
        if self.to == To::Table {
            let rows = self.db.query("SELECT to_jsonb(a)::text FROM archive a", &[]);
            return rows.iter().map(|row| object(row.get(0))).collect();
        }
        let files = fs::read_dir(self.folder.folder()).unwrap().map(|entry| entry.unwrap().path());
        let end = if self.to == To::Lines { "ndjson" } else { "parquet" };
        let files = files.filter(|path| path.extension().is_some_and(|extension| extension == end));
        files
            .flat_map(|path| match self.to {
                To::Parquet => parquet(&path, column),
                _ => fs::read_to_string(path).unwrap().lines().map(object).collect(),
            })
            .collect()
    }

    /// Checks that every row is in the archive once, and that `expected` of them have the value in the column.
    #[track_caller]
    fn check(&self, column: &str, value: &str, expected: usize) {
        let kept = self.kept(column);
        let ids: BTreeSet<_> = kept.iter().map(|kept| kept.id.clone()).collect();
        assert_eq!((kept.len(), ids), (self.all.len(), self.all.clone()), "{:?}", self.to);
        let with = kept.iter().filter(|kept| kept.value.as_deref() == Some(value)).count();
        assert_eq!(with, expected, "{:?}: rows that are archived with {column}={value}", self.to);
    }
}

fn parquet(path: &Path, column: &str) -> Vec<Kept> {
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let text = |field: &Field| match field {
        Field::Str(text) => Some(text.clone()),
        Field::Bytes(bytes) => Some(uuid::Uuid::from_slice(bytes.data()).unwrap().to_string()),
        _ => None,
    };
    let rows = reader.get_row_iter(None).unwrap();
    rows.map(|row| {
        let row = row.unwrap();
        let of = |name: &str| row.get_column_iter().find(|(found, _)| *found == name).map(|(_, field)| field);
        Kept { id: of("id").and_then(text).unwrap(), value: of(column).and_then(text) }
    })
    .collect()
}

#[test]
fn a_column_that_comes_between_two_batches_is_archived() {
    for to in [To::Table, To::Lines, To::Parquet] {
        let server = start(18);
        let (place, relay) = Place::build(&server, to);
        let left = place.altered_in_between("ALTER TABLE outbox ADD COLUMN extra text DEFAULT 'new'");
        if to == To::Table {
            // Values would be lost.
            let (lacking, mut refused) =
                ("ALTER TABLE public.archive ADD COLUMN extra text;", place.cleanup());
            let (exit, stderr) = (refused.wait_for_exit(DEADLINE), refused.stderr());
            let said: Value = serde_json::from_str(stderr.lines().last().unwrap()).unwrap();
            assert_eq!((exit, &said["fix"]), (1, &lacking.into()), "{stderr}");
            assert_eq!(place.rows(), left);
            place.db.execute(lacking);
        }
        place.finish();
        place.check("extra", "new", left);
        assert_eq!(relay.stop(), 0);
    }
}

#[test]
fn a_column_that_goes_between_two_batches_is_archived_as_long_as_it_was_there() {
    for to in [To::Table, To::Lines, To::Parquet] {
        let server = start(15);
        let (place, relay) = Place::build(&server, to);
        let left = place.altered_in_between("ALTER TABLE outbox DROP COLUMN note");
        place.finish();
        place.check("note", "old", ROWS as usize - left);
        assert_eq!(relay.stop(), 0);
    }
}

#[test]
fn a_relay_says_which_column_its_archive_lacks_and_continues_when_it_is_there() {
    let server = start(18);
    let (place, relay) = Place::build(&server, To::Table);
    assert_eq!(relay.stop(), 0);
    let settings = [
        ("outboxd.cleanup.enable", "true"),
        ("outboxd.cleanup.before.slot", "delete"),
        ("outboxd.cleanup.interval.ms", "100"),
        ("outboxd.cleanup.archive.table", "archive"),
    ];
    let relay = Relay::start(&with(place.config.clone(), &settings));
    let left = place.alter("ALTER TABLE outbox ADD COLUMN extra text DEFAULT 'new'");
    relay.wait_for_stderr("ALTER TABLE public.archive ADD COLUMN extra text;");
    // Of some passes.
    let_pass(Duration::from_millis(500));
    assert_eq!(place.rows(), left);
    place.db.execute("ALTER TABLE archive ADD COLUMN extra text");
    eventually_eq(DEADLINE, &0, || place.rows());
    place.check("extra", "new", left);
    assert_eq!(relay.stop(), 0);
}

/// Partitions go as a whole, and their rows in one statement.
#[test]
fn a_partition_stays_as_long_as_its_archive_lacks_a_column() {
    let server = start(15);
    let db = Outbox::create_bare(
        &server,
        "CREATE TABLE outbox (id uuid NOT NULL, aggregatetype text, aggregateid text, type text, payload jsonb, n int NOT NULL)
             PARTITION BY RANGE (n);
         CREATE TABLE outbox_1 PARTITION OF outbox FOR VALUES FROM (0) TO (100);
         CREATE TABLE outbox_2 PARTITION OF outbox FOR VALUES FROM (100) TO (200);
         CREATE TABLE archive (LIKE outbox);
         ALTER TABLE outbox ADD COLUMN extra varchar(9) DEFAULT 'new', ADD COLUMN \"Other\" int",
    );
    let folder = Watcher::new("outboxd-cleanup-");
    let config = with(db.config(kafka()), &[("status.update.interval.ms", "100")]);
    let file = folder.folder().join("outbox.json");
    fs::write(&file, serde_json::to_vec(&config).unwrap()).unwrap();
    let relay = Relay::start(&config);
    db.wait_until_streaming();
    db.execute(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, n)
         SELECT gen_random_uuid(), 'order', n::text, 'Made', n FROM unnest(ARRAY[1, 2, 3, 100]) n",
    );
    let cleanup = || {
        let file = file.to_str().unwrap();
        let command = ["cleanup", "-c", file, "--execute", "--also-before-slot", "--yes"];
        let mut process =
            Relay::command(&[&command[..], &["--partitions", "drop", "--archive-table", "archive"]].concat());
        (process.wait_for_exit(DEADLINE), process.stderr())
    };
    let (exit, stderr) = cleanup();
    let lacking =
        "ALTER TABLE public.archive ADD COLUMN extra character varying(9), ADD COLUMN \"Other\" integer;";
    assert!(exit == 1 && stderr.contains(lacking), "{stderr}");
    assert!(stderr.contains("lacks some of their columns"), "{stderr}");
    assert_eq!(db.query("SELECT FROM outbox_1", &[]).len(), 3);
    db.execute(lacking);
    let (exit, stderr) = cleanup();
    assert!(exit == 0 && stderr.contains("dropped public.outbox_1 with 3 rows"), "{stderr}");
    assert_eq!(db.query("SELECT FROM archive WHERE n < 100 AND extra = 'new'", &[]).len(), 3);
    assert_eq!(relay.stop(), 0);
}
