//! Committed events and their order: the table `truth` contains their content, and a logical slot of the checker's own
//! their order. Its decoder shares no code with outboxd's.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::session::{Address, Session};
use crate::support::wait::let_pass;

/// Interval at which the slot is read, so that it retains little WAL.
const READ_INTERVAL: Duration = Duration::from_secs(5);
const SLOT: &str = "truth";
/// Changes that one question may bring, up to the end of a transaction.
const CHANGES_MAX: i32 = 50_000;

/// A committed event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) kind: String,
    pub(crate) key: String,
    pub(crate) n: i64,
    pub(crate) md5: String,
    pub(crate) stamp: i64,
    /// Position of its transaction's commit record.
    pub(crate) commit_lsn: u64,
}

impl Event {
    /// Returns whether an event has no route.
    pub(crate) fn is_letter(&self) -> bool {
        self.kind == "letter"
    }
}

/// Reads the slot.
#[derive(Debug)]
pub(crate) struct Truth {
    session: Session,
    /// In commit order, and in a transaction in the order of its statements.
    events: Vec<Event>,
    commit_lsn: u64,
    /// The transaction was read before: the slot goes back when the server crashes.
    known: bool,
}

impl Truth {
    /// Makes the slot: everything that commits from now on is true.
    pub(crate) fn begin(address: &Address) -> Self {
        let session = Session::new(address.clone());
        session.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", &[&slot(address)]);
        Self { session, events: Vec::new(), commit_lsn: 0, known: false }
    }

    /// Reads now and then, and the rest when it is over.
    pub(crate) fn follow(mut self, over: &AtomicBool) -> Vec<Event> {
        let mut waited = Duration::ZERO;
        while !over.load(Ordering::Relaxed) {
            let_pass(Duration::from_millis(100));
            waited += Duration::from_millis(100);
            if waited >= READ_INTERVAL {
                waited = Duration::ZERO;
                self.try_read();
            }
        }
        self.finish()
    }

    /// Reads to the end, and compares with the table.
    fn finish(mut self) -> Vec<Event> {
        while self.try_read() != Some(0) {}
        let slot = slot(self.session.address());
        self.session.query("SELECT pg_drop_replication_slot($1)", &[&slot]);
        let rows = self.session.query("SELECT id::text FROM truth", &[]);
        let table: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
        let streamed: BTreeSet<String> = self.events.iter().map(|event| event.id.clone()).collect();
        assert!(
            table == streamed,
            "the truth is not what its slot tells: {} {}",
            table.len(),
            streamed.len()
        );
        self.events
    }

    /// Returns the number of received changes; `None` when the server is away.
    fn try_read(&mut self) -> Option<usize> {
        let sql = format!(
            "SELECT data FROM pg_logical_slot_get_binary_changes('{}', NULL, {CHANGES_MAX},
                 'proto_version', '1', 'publication_names', 'truth')",
            slot(self.session.address())
        );
        let Ok(rows) = self.session.try_query(&sql) else {
            self.session.disconnect();
            let_pass(Duration::from_millis(100));
            return None;
        };
        let changes = rows.iter().map(|row| row.get::<_, Vec<u8>>(0));
        let count = changes.map(|change| self.take(&change)).count();
        Some(count)
    }

    fn take(&mut self, message: &[u8]) {
        match message[0] {
            b'B' => {
                let lsn = u64::from_be_bytes(message[1..9].try_into().unwrap());
                self.known = lsn <= self.commit_lsn;
                self.commit_lsn = self.commit_lsn.max(lsn);
            }
            b'I' if !self.known => self.events.push(event(message, self.commit_lsn)),
            _ => {}
        }
    }
}

/// Returns the slot's name, one for each database: a slot's name is unique in the whole server.
fn slot(address: &Address) -> String {
    format!("{SLOT}_{}", address.database)
}

/// Parses an Insert: the relation's id, `N`, the number of columns, and each as `t`, a length and text.
fn event(message: &[u8], commit_lsn: u64) -> Event {
    let mut rest = &message[8..];
    let mut text = || {
        assert_eq!(rest[0], b't', "no column of the truth is NULL");
        let length = usize::try_from(u32::from_be_bytes(rest[1..5].try_into().unwrap())).unwrap();
        let (text, behind) = rest[5..].split_at(length);
        rest = behind;
        String::from_utf8(text.to_vec()).unwrap()
    };
    Event {
        id: text(),
        kind: text(),
        key: text(),
        n: text().parse().unwrap(),
        md5: text(),
        stamp: text().parse().unwrap(),
        commit_lsn,
    }
}
