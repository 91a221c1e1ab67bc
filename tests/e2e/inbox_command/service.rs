use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::Relay;
use crate::support::wait::DEADLINE;

const SCHEMA: &str = include_str!("../../../sql/inbox.sql");

/// A service's database with the inbox's tables, of one test. Its consumers are rows: no process reads them.
pub(super) struct Service {
    pub(super) db: Outbox,
    pub(super) url: String,
}

impl Service {
    pub(super) fn new() -> Self {
        Self::bare(SCHEMA)
    }

    /// Creates a service with other tables.
    pub(super) fn bare(schema: &str) -> Self {
        let db = Outbox::create_bare(postgres18(), schema);
        let url = postgres18().url(db.name());
        Self { db, url }
    }

    /// Lets a consumer take partition 0 of topic `orders`.
    pub(super) fn take(&self, consumer: &str) -> (i32, i64) {
        let row = &self
            .db
            .query("SELECT partition_id, epoch FROM inbox_take($1, 'orders', 0, $1)", &[&consumer])[0];
        (row.get(0), row.get(1))
    }

    /// Parks an event with an id and a value that holds `secret`. `more` sets columns.
    pub(super) fn park(&self, partition_id: i32, offset: i64, key: &str, id: &str, more: &str) {
        self.db.execute(&format!(
            "INSERT INTO inbox_parked (partition_id, \"offset\", timestamp_ms, key, value, header_names, header_values, attempts, not_before) \
             VALUES ({partition_id}, {offset}, 1795171267000, '{key}', '{{\"secret\":{offset}}}', ARRAY['id', 'trace']::bytea[], \
             ARRAY['{id}', 'secret']::bytea[], 0, now()); \
             UPDATE inbox_parked SET {more} WHERE partition_id = {partition_id} AND \"offset\" = {offset}"
        ));
    }

    /// Returns the parked events as `offset id`, in their order.
    pub(super) fn parked(&self) -> Vec<String> {
        let sql = "SELECT \"offset\" || ' ' || convert_from(header_values[1], 'UTF8') FROM inbox_parked ORDER BY partition_id, \"offset\"";
        self.db.query(sql, &[]).iter().map(|row| row.get(0)).collect()
    }

    /// Returns the first column of the first row.
    pub(super) fn number(&self, sql: &str) -> Option<i64> {
        self.db.query(sql, &[]).first().and_then(|row| row.get(0))
    }

    /// Runs `outboxd inbox` on this database: returns exit code, standard output and standard error.
    pub(super) fn run(&self, command: &str, arguments: &[&str]) -> (i32, String, String) {
        let whole = [&["inbox", command, "--postgres", &self.url], arguments].concat();
        let mut process = Relay::command(&whole);
        (process.wait_for_exit(DEADLINE), process.stdout(), process.stderr())
    }

    /// Executes the `psql` of a text: a shell reads its words, and the statements and files run in one session.
    #[track_caller]
    pub(super) fn execute_psql(&self, text: &str) {
        let (_, command) = text.split_once("psql ").unwrap_or_else(|| panic!("no psql in {text}"));
        let words = format!("printf '%s\\n' {}", command.split(';').next().unwrap());
        let words = Command::new("sh").args(["-c", &words]).output().unwrap();
        let words = String::from_utf8(words.stdout).unwrap();
        let [database, given, statement, script, file] = words.lines().skip(1).collect::<Vec<_>>()[..] else {
            panic!("{text}")
        };
        assert_eq!((database, given, script), (self.db.name(), "-c", "-f"), "{text}");
        let script = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
        self.db.execute(&format!("{statement}; {script}; RESET search_path"));
    }

    /// Runs the command with --json; it must succeed.
    #[track_caller]
    pub(super) fn json(&self, command: &str, arguments: &[&str]) -> Value {
        let (exit, stdout, stderr) = self.run(command, &[arguments, &["--json"]].concat());
        assert_eq!(exit, 0, "{stdout}{stderr}");
        serde_json::from_str(&stdout).unwrap()
    }
}

/// An attempt has failed.
pub(super) const FAILED: &str = "attempts = 4, error = 'no rate', not_before = now() + interval '30 minutes'";
