//! Blocking snapshots.

use std::collections::VecDeque;

use super::condition::expand;
use super::notification::{Notification, SnapshotStatus};
use super::{PgSnapshot, Recent, SnapshotRequest};
use connect_data::NamePatterns;
use connect_data::java::hash_map::{Made, in_order};

/// The queue of blocking snapshots, for which the stream waits.
#[derive(Debug, Default)]
pub struct Blocking {
    waiting: VecDeque<VecDeque<ScanTable>>,
    current: Option<Scan>,
    notifications: VecDeque<Notification>,
}

/// A table of a blocking snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScanTable {
    /// `schema.table`
    pub table: String,
    /// The SELECT that reads it; `None` for all rows.
    pub statement: Option<String>,
}

/// The next action in the database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScanAsk {
    /// Begins a table. The first one also begins a transaction, which sees all tables in their present state.
    Begin(ScanTable),
    /// Reads more rows of the table.
    More,
    /// Ends the transaction.
    End,
}

/// The result of a [`ScanAsk`].
#[derive(Debug)]
pub enum Scanned {
    /// Rows of the table.
    Rows {
        /// The rows, in the order of the scan.
        rows: Vec<Values>,
        /// True if further rows may follow.
        more: bool,
        /// The transactions that the reading transaction sees, if it was asked.
        visible: Option<PgSnapshot>,
    },
    /// The table cannot be read.
    Failed,
    /// The connection was lost.
    Lost,
}

impl Scanned {
    /// Reports whether there are rows that may be sent.
    pub fn has_rows(&self, sent: &Recent) -> bool {
        matches!(self, Self::Rows { rows, .. } if !rows.is_empty()) && self.is_seen(sent)
    }

    /// Reports whether the reading transaction sees all transactions that the stream has sent.
    fn is_seen(&self, sent: &Recent) -> bool {
        match self {
            Self::Rows { visible: Some(visible), .. } => sent.are_seen_by(visible),
            _ => true,
        }
    }
}

/// The values of a row.
pub type Values = Vec<Option<Vec<u8>>>;

/// A row with its place in the snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScannedRow {
    /// Its columns, in the order of the table.
    pub values: Values,
    /// True if it is the first row of its table.
    pub first: bool,
    /// True if it is the last row of its table.
    pub last: bool,
    /// True if its table is the first one, with or without rows.
    pub first_table: bool,
    /// True if its table is the last one that has rows.
    pub last_table: bool,
    /// True if it is the last row of the table before the present one.
    pub is_of_table_before: bool,
}

/// The names of the tables, as notifications list them.
#[derive(Debug)]
struct Names {
    /// The names in the order in which the tables are read.
    read: String,
    /// The names in the order of a Java set.
    set: String,
}

#[derive(Debug)]
struct Scan {
    tables: VecDeque<ScanTable>,
    names: Names,
    /// True while the first table is not finished.
    is_first_table: bool,
    /// The number of rows of the present table.
    rows: u64,
    /// A row whose successor is not known, so that it may be the last one of its table.
    held: Option<Values>,
    /// The last row of a finished table, which may be the last one of the snapshot.
    last: Option<ScannedRow>,
    next: Option<ScanAsk>,
}

impl Blocking {
    /// Queues a snapshot. `known` is the list of captured tables, and `order` is the order in which they are
    /// read.
    pub fn execute(&mut self, request: &SnapshotRequest, known: &[String], order: &NamePatterns) {
        let mut tables = expand(&request.collections, known);
        order.arrange(&mut tables, String::clone);
        let tables = tables.into_iter().map(|table| ScanTable {
            statement: request
                .conditions
                .iter()
                .find_map(|condition| condition.of(&table))
                .filter(|statement| !statement.is_empty())
                .map(str::to_owned),
            table,
        });
        self.waiting.push_back(tables.collect());
    }

    /// Reports whether the stream must wait.
    pub fn is_running(&self) -> bool {
        self.current.is_some() || !self.waiting.is_empty()
    }

    /// Returns the next action in the database, if there is one.
    pub fn next_ask(&mut self) -> Option<ScanAsk> {
        if self.current.is_none() {
            let tables = self.waiting.pop_front()?;
            let mut names: Vec<_> = tables.iter().map(|table| table.table.clone()).collect();
            let (read, set) = (names.join(","), in_order(names.clone(), Made::Set, String::as_str).join(","));
            names.sort_unstable();
            self.report(SnapshotStatus::Started, Vec::new());
            self.report(SnapshotStatus::CollectionsResolved, vec![(TABLES, names.join(","))]);
            let names = Names { read, set };
            let scan =
                Scan { tables, names, is_first_table: true, rows: 0, held: None, last: None, next: None };
            let next = self.begin_table(&scan);
            self.current = Some(Scan { next: Some(next), ..scan });
        }
        self.current.as_mut()?.next.take()
    }

    /// Accepts the result of an action; returns the rows that may be sent.
    pub fn answer(&mut self, scanned: Scanned, sent: &Recent) -> Vec<ScannedRow> {
        let Some(mut scan) = self.current.take() else { return Vec::new() };
        let rows = match scanned {
            // The reading transaction does not see all transactions that the stream has sent.
            Scanned::Rows { .. } if !scanned.is_seen(sent) => {
                scan.next = scan.tables.front().cloned().map(ScanAsk::Begin);
                Vec::new()
            }
            Scanned::Rows { rows, more, .. } => self.take(&mut scan, rows, more),
            Scanned::Failed => {
                self.end_table(&mut scan, "SQL_EXCEPTION");
                very_last(&mut scan).into_iter().collect()
            }
            // The present table is read again from its beginning, so its rows may be sent twice.
            Scanned::Lost => {
                scan.next = scan.tables.front().cloned().map(ScanAsk::Begin);
                (scan.held, scan.rows) = (None, 0);
                Vec::new()
            }
        };
        match (&scan.next, scan.tables.is_empty()) {
            (None, true) => self.report(SnapshotStatus::Completed, Vec::new()),
            _ => self.current = Some(scan),
        }
        rows
    }

    /// Removes and returns the next notification.
    pub fn next_notification(&mut self) -> Option<Notification> {
        self.notifications.pop_front()
    }

    fn take(&mut self, scan: &mut Scan, rows: Vec<Values>, more: bool) -> Vec<ScannedRow> {
        if scan.tables.is_empty() {
            // The result is that of the end of the transaction.
            return Vec::new();
        }
        let mut ready = Vec::with_capacity(rows.len().saturating_add(1));
        if !rows.is_empty() {
            ready.extend(scan.last.take());
        }
        for values in rows {
            if let Some(before) = scan.held.replace(values) {
                ready.push(scan.count(before));
            }
        }
        if more {
            scan.next = Some(ScanAsk::More);
            return ready;
        }
        if let Some(last) = scan.held.take() {
            let row = scan.count(last);
            scan.last = Some(ScannedRow { last: true, ..row });
        }
        self.end_table(scan, "SUCCEEDED");
        ready.extend(very_last(scan));
        if let Some(last) = &mut scan.last {
            last.is_of_table_before = true;
        }
        ready
    }

    fn end_table(&mut self, scan: &mut Scan, status: &str) {
        let Some(table) = scan.tables.pop_front() else {
            scan.next = None;
            return;
        };
        let data = vec![
            (TABLES, scan.names.read.clone()),
            ("scanned_collection", table.table),
            ("status", status.to_owned()),
            ("total_rows_scanned", scan.rows.to_string()),
        ];
        self.report(SnapshotStatus::TableScanCompleted, data);
        scan.is_first_table = false;
        (scan.rows, scan.held) = (0, None);
        scan.next = Some(self.begin_table(scan));
    }

    fn begin_table(&mut self, scan: &Scan) -> ScanAsk {
        let Some(table) = scan.tables.front() else { return ScanAsk::End };
        let data =
            vec![("current_collection_in_progress", table.table.clone()), (TABLES, scan.names.set.clone())];
        self.report(SnapshotStatus::InProgress, data);
        ScanAsk::Begin(table.clone())
    }

    fn report(&mut self, status: SnapshotStatus, data: Vec<(&'static str, String)>) {
        self.notifications.push_back(Notification::initial(status, data));
    }
}

impl Scan {
    /// Counts a row of the present table; returns it with its place.
    fn count(&mut self, values: Values) -> ScannedRow {
        let (first, first_table) = (self.rows == 0, self.is_first_table);
        self.rows = self.rows.saturating_add(1);
        ScannedRow { values, first, last: false, first_table, last_table: false, is_of_table_before: false }
    }
}

/// Returns the last row of the snapshot, once all tables are read.
fn very_last(scan: &mut Scan) -> Option<ScannedRow> {
    let last = if scan.tables.is_empty() { scan.last.take() } else { None };
    last.map(|row| ScannedRow { last_table: true, ..row })
}

const TABLES: &str = "data_collections";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::signal::{Action, Signal};

    fn rows(count: usize, more: bool) -> Scanned {
        Scanned::Rows { rows: vec![vec![None]; count], more, visible: None }
    }

    #[test]
    fn each_row_has_its_place() {
        let data = r#"{"data-collections":["a","b"],"type":"blocking","additional-conditions":[{"data-collection":"b","filter":"select 1"}]}"#;
        let Ok(Signal { action: Action::ExecuteSnapshot(request), .. }) =
            Signal::parse("s", "execute-snapshot", Some(data))
        else {
            panic!("{data}")
        };
        let mut blocking = Blocking::default();
        blocking.execute(&request, &[], &NamePatterns::default());
        let sent = Recent::default();
        assert_eq!(
            blocking.next_ask(),
            Some(ScanAsk::Begin(ScanTable { table: "a".to_owned(), statement: None }))
        );
        assert!(blocking.is_running() && blocking.next_ask().is_none());
        let marks = |rows: Vec<ScannedRow>| -> Vec<[bool; 4]> {
            rows.iter().map(|row| [row.first, row.last, row.first_table, row.last_table]).collect()
        };
        assert_eq!(marks(blocking.answer(rows(2, true), &sent)), [[true, false, true, false]]);
        assert_eq!(blocking.next_ask(), Some(ScanAsk::More));
        assert!(blocking.answer(rows(0, false), &sent).is_empty(), "its last row waits");
        let statement = Some("select 1".to_owned());
        assert_eq!(blocking.next_ask(), Some(ScanAsk::Begin(ScanTable { table: "b".to_owned(), statement })));
        let both = [[false, true, true, false], [true, true, false, true]];
        assert_eq!(marks(blocking.answer(rows(1, false), &sent)), both);
        assert_eq!(blocking.next_ask(), Some(ScanAsk::End));
        assert!(blocking.answer(rows(0, false), &sent).is_empty());
        assert!(!blocking.is_running());
    }

    #[test]
    fn the_last_row_of_all_is_reported_as_such_when_the_last_tables_have_none() {
        let request = |tables: [&str; 4]| SnapshotRequest {
            kind: crate::signal::SnapshotKind::Blocking,
            collections: tables.map(str::to_owned).to_vec(),
            conditions: Vec::new(),
            surrogate_key: None,
        };
        for end in [rows(0, false), Scanned::Failed] {
            let mut blocking = Blocking::default();
            blocking.execute(&request(["a", "b", "c", "d"]), &[], &NamePatterns::default());
            let mut told = Vec::new();
            for answer in [rows(0, false), rows(2, false), rows(0, false), end] {
                assert!(blocking.next_ask().is_some());
                let rows = blocking.answer(answer, &Recent::default());
                told.extend(rows.iter().map(|row| {
                    [row.first, row.last, row.first_table, row.last_table, row.is_of_table_before]
                }));
            }
            assert_eq!(told, [[true, false, false, false, false], [false, true, false, true, true]]);
            assert_eq!(blocking.next_ask(), Some(ScanAsk::End));
        }
    }

    #[test]
    fn tables_are_read_as_listed_and_reported_as_debezium_reports_them() {
        let request = SnapshotRequest {
            kind: crate::signal::SnapshotKind::Blocking,
            collections: ["a", "b", "c"].map(str::to_owned).to_vec(),
            conditions: Vec::new(),
            surrogate_key: None,
        };
        let order = NamePatterns::new("k", &["c".to_owned(), "[ab]".to_owned()]).unwrap();
        let mut blocking = Blocking::default();
        blocking.execute(&request, &[], &order);
        let mut read = Vec::new();
        while let Some(ask) = blocking.next_ask() {
            if let ScanAsk::Begin(table) = ask {
                read.push(table.table);
            }
            blocking.answer(rows(0, false), &Recent::default());
        }
        assert_eq!(read, ["c", "a", "b"]);
        let mut told = Vec::new();
        while let Some(notification) = blocking.next_notification() {
            let names = notification.data.iter().find(|(name, _)| *name == TABLES);
            told.extend(names.map(|(_, names)| names.clone()));
        }
        // The resolved tables, then the begin and the end of each.
        let (sorted, read) = ("a,b,c", "c,a,b");
        assert_eq!(told, [sorted, sorted, read, sorted, read, sorted, read]);
    }

    #[test]
    fn a_scan_that_does_not_see_what_was_sent_is_begun_again() {
        let request = SnapshotRequest {
            kind: crate::signal::SnapshotKind::Blocking,
            collections: vec!["a".to_owned()],
            conditions: Vec::new(),
            surrogate_key: None,
        };
        let mut blocking = Blocking::default();
        blocking.execute(&request, &[], &NamePatterns::default());
        let begin = blocking.next_ask();
        let mut sent = Recent::default();
        sent.add(7);
        let visible = PgSnapshot::parse("5:9:7");
        let blind = Scanned::Rows { rows: vec![vec![None]], more: false, visible };
        assert!(blocking.answer(blind, &sent).is_empty());
        assert_eq!(blocking.next_ask(), begin);
    }
}
