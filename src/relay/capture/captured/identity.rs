//! Captured tables by object id: a renamed table or a detached partition remains captured.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use postgres_protocol::escape::escape_identifier;

use super::published::Published;
use super::suspicion::{Suspicion, Suspicions};
use super::versions::Look;
use crate::pgoutput::Relation;
use crate::postgres::{TableFilter, TableVersion};
use crate::wal::{Lsn, Oid};

/// Most tables and partitions that are remembered. A table with hourly partitions needs more than a year to
/// reach it.
pub(in crate::relay) const CAPTURED_TABLES_MAX: usize = 10_000;

/// Most of them that are stored beyond the process. They are written with each position, once a second, at
/// about 80 bytes each.
const KEPT_TABLES_MAX: usize = 1_000;

/// A captured table, or a partition of one.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(in crate::relay) struct CapturedTable {
    /// Object id.
    pub(in crate::relay) oid: u32,
    /// The object id of the captured table that it is a partition of; its own when it is no partition.
    pub(in crate::relay) root: u32,
    /// The schema that it had when it was captured.
    pub(in crate::relay) schema: String,
    /// The name that it had when it was captured. Its events are made under this name for as long as the process lives.
    pub(in crate::relay) name: String,
    /// Columns of the primary key, in the key's order, if changes of the table are events. Rows that do not
    /// carry their key (`REPLICA IDENTITY FULL` or `NOTHING`) get it from here when the table is dropped
    /// before they are read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::relay) key: Option<Vec<String>>,
    /// Proof of its publication at the last poll of the catalog; only of a captured table itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::relay) published: Option<Published>,
    /// Reason to suspect that rows of it are missing in the stream. Only what is stored has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::relay) suspicion: Option<Suspicion>,
}

/// Limit of notes that are stored and logged. Later ones are counted.
const NOTES_MAX: usize = 1_000;

/// Result of recording a note about a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Noted {
    /// New; must be logged.
    New,
    /// Logged before.
    Known,
    /// Not remembered for lack of room, for the first time in this process or again.
    NoRoom { is_first: bool },
}

/// Every captured table and partition by its object id. It lives as long as the process, and forgets none of them while
/// there is room. Clones are handles on the same set.
#[derive(Debug, Clone, Default)]
pub(in crate::relay) struct CapturedTables(Arc<Mutex<Remembered>>);

#[derive(Debug, Default)]
pub(super) struct Remembered {
    pub(super) tables: BTreeMap<Oid, CapturedTable>,
    /// Last result of the guard, in this session or an earlier one.
    look: Option<Look>,
    /// True if the lack of room was reported.
    told: bool,
    /// Notes that were logged.
    notes: HashSet<String>,
    /// The limit of notes was reached and logged.
    notes_are_full: bool,
    pub(super) suspicions: Suspicions,
    /// Begin of the last poll of the catalog that found no reason to end the relay.
    judged: Option<Instant>,
}

impl Remembered {
    /// Remembers a table. Without room it replaces a partition that is gone. If no partition is gone, the new
    /// table is not remembered: while it exists, the catalog has it.
    fn insert(&mut self, table: CapturedTable, gone: &mut Vec<Oid>) {
        if self.tables.contains_key(&table.oid()) {
            return;
        }
        if self.tables.len() >= CAPTURED_TABLES_MAX {
            let Some(oldest) = gone.pop() else {
                if !std::mem::replace(&mut self.told, true) {
                    let (limit, table) = (CAPTURED_TABLES_MAX, table.full_name());
                    tracing::warn!(
                        limit,
                        table,
                        "too many partitions to remember: drop partitions only when their rows have been \
                         sent"
                    );
                }
                return;
            };
            self.tables.remove(&oldest);
        }
        self.tables.insert(table.oid(), table);
    }
}

impl CapturedTable {
    /// Makes a captured table from what the catalog has of it.
    pub(in crate::relay) fn new(oid: Oid, root: Oid, schema: &str, name: &str) -> Self {
        let (schema, name) = (schema.to_owned(), name.to_owned());
        Self { oid: oid.0, root: root.0, schema, name, key: None, published: None, suspicion: None }
    }

    pub(in crate::relay) fn oid(&self) -> Oid {
        Oid(self.oid)
    }

    pub(in crate::relay) fn root(&self) -> Oid {
        Oid(self.root)
    }

    /// Returns whether the stream names the table as it was named when it was captured.
    pub(super) fn is_named(&self, relation: &Relation) -> bool {
        self.schema == relation.schema && self.name == relation.table
    }

    /// Returns the warning that rows of it may be missing in the stream.
    pub(in crate::relay) fn warning(&self) -> Option<String> {
        Some(self.suspicion?.warning(&self.full_name()))
    }

    /// Returns the name, quoted for SQL.
    pub(in crate::relay) fn quoted(&self) -> String {
        format!("{}.{}", escape_identifier(&self.schema), escape_identifier(&self.name))
    }

    /// Returns `schema.name`.
    pub(in crate::relay) fn full_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }
}

impl CapturedTables {
    /// Returns the captured table with this object id.
    pub(in crate::relay) fn get(&self, oid: Oid) -> Option<CapturedTable> {
        self.lock().tables.get(&oid).cloned()
    }

    /// Remembers a note, so that each is logged once.
    pub(in crate::relay) fn note(&self, note: &str) -> Noted {
        let mut remembered = self.lock();
        if remembered.notes.contains(note) {
            return Noted::Known;
        }
        if remembered.notes.len() >= NOTES_MAX {
            return Noted::NoRoom { is_first: !std::mem::replace(&mut remembered.notes_are_full, true) };
        }
        remembered.notes.insert(note.to_owned());
        Noted::New
    }

    /// Sets the key of a captured table, as it is now.
    pub(in crate::relay) fn set_key(&self, oid: Oid, key: Vec<String>) {
        if let Some(table) = self.lock().tables.get_mut(&oid) {
            table.key = Some(key);
        }
    }

    /// Adds a table. One that is known keeps the name that it was captured under.
    pub(in crate::relay) fn add(&self, table: CapturedTable) {
        self.lock().insert(table, &mut Vec::new());
    }

    /// Adds captured tables and partitions as the catalog shows them.
    pub(in crate::relay) fn learn(&self, tables: &[TableVersion]) {
        let there: HashSet<Oid> = tables.iter().map(|table| table.oid).collect();
        let mut remembered = self.lock();
        // The oldest last: object ids grow.
        let gone = remembered.tables.values().rev().filter(|known| known.root != known.oid);
        let mut gone: Vec<Oid> = gone.map(CapturedTable::oid).filter(|oid| !there.contains(oid)).collect();
        for table in tables {
            let table = CapturedTable::new(table.oid, table.root, &table.schema, &table.name);
            remembered.insert(table, &mut gone);
        }
    }

    /// Returns the result of the guard's last poll that found no reason to end the relay.
    pub(in crate::relay) fn last_look(&self) -> Option<Look> {
        self.lock().look.clone()
    }

    /// Stores the result of such a poll. One that found a reason is not stored: if the session ends over something else meanwhile, the
    /// first poll of the next one finds the reason again.
    pub(in crate::relay) fn store_look(&self, look: Look) {
        self.lock().look = Some(look);
    }

    /// Removes a table and its partitions, which the user has excluded.
    pub(in crate::relay) fn forget(&self, root: Oid) {
        let mut remembered = self.lock();
        remembered.tables.retain(|_, table| table.root() != root);
        remembered.suspicions.retain(|table, _| table.root() != root);
    }

    /// Returns the captured tables themselves, without their partitions.
    pub(in crate::relay) fn roots(&self) -> Vec<CapturedTable> {
        self.lock().tables.values().filter(|table| table.root == table.oid).cloned().collect()
    }

    /// Returns every table and partition, in the order of their object ids.
    pub(in crate::relay) fn list(&self) -> Vec<CapturedTable> {
        self.lock().tables.values().cloned().collect()
    }

    /// Returns what is stored beyond the process: suspected tables, the tables themselves, and up to the limit their
    /// partitions, the newest first.
    pub(in crate::relay) fn list_kept(&self) -> Vec<CapturedTable> {
        let remembered = self.lock();
        let suspected = remembered.suspicions.list().map(|(table, suspicion)| {
            let known = remembered.tables.get(&table.oid()).unwrap_or(table);
            CapturedTable { suspicion: Some(*suspicion), ..known.clone() }
        });
        let others = remembered.tables.values().filter(|table| !remembered.suspicions.is_about(table.oid()));
        let (roots, partitions): (Vec<_>, Vec<_>) = others.partition(|table| table.root == table.oid);
        let others = roots.into_iter().chain(partitions.into_iter().rev()).cloned();
        let mut kept: Vec<_> = suspected.chain(others).take(KEPT_TABLES_MAX).collect();
        kept.sort_unstable_by_key(|table| table.oid);
        kept
    }

    /// Adds what an earlier process has captured (its [`Self::list_kept`]), before its rows are read. What the user has taken out of the lists since is not captured any more: neither the name of the table nor that of the
    /// table it is a partition of may match them.
    pub(in crate::relay) fn remember(&self, history: Vec<CapturedTable>, filter: &TableFilter) {
        let matched = |table: &CapturedTable| filter.matches(&table.schema, &table.name);
        let roots: Vec<u32> = history
            .iter()
            .filter(|table| table.root == table.oid && matched(table))
            .map(|table| table.oid)
            .collect();
        let wanted = |table: &CapturedTable| matched(table) || roots.contains(&table.root);
        for table in history.into_iter().filter(wanted) {
            let suspicion = table.suspicion;
            let table = CapturedTable { suspicion: None, ..table };
            if let Some(suspicion) = suspicion {
                self.lock().suspicions.recall(table.clone(), suspicion);
            }
            self.recall(table);
        }
    }

    /// Adds a table of an earlier process. How it was published counts until the first poll of this one.
    fn recall(&self, table: CapturedTable) {
        let mut remembered = self.lock();
        let is_first = remembered.look.is_none();
        match remembered.tables.get_mut(&table.oid()) {
            Some(known) if is_first => known.published = table.published,
            Some(_) => {}
            None => remembered.insert(table, &mut Vec::new()),
        }
    }

    /// Stores that rows of a table may be missing in the stream.
    pub(in crate::relay) fn suspect(&self, table: CapturedTable, suspicion: Suspicion) {
        self.lock().suspicions.add(table, suspicion);
    }

    /// Returns the warnings of the suspicions that are not settled.
    pub(in crate::relay) fn suspicions(&self) -> Vec<String> {
        let warning = |(table, suspicion): &(CapturedTable, Suspicion)| suspicion.warning(&table.full_name());
        self.lock().suspicions.list().map(warning).collect()
    }

    /// Returns the warning of a suspicion about a captured table or one of its partitions.
    pub(in crate::relay) fn suspicion_of(&self, root: Oid) -> Option<String> {
        let remembered = self.lock();
        let root_of = |table: &CapturedTable| remembered.tables.get(&table.oid()).unwrap_or(table).root();
        let mut suspicions = remembered.suspicions.list();
        let (table, suspicion) =
            suspicions.find(|(table, _)| table.oid() == root || root_of(table) == root)?;
        Some(suspicion.warning(&table.full_name()))
    }

    /// Settles the suspicions about tables whose rows are all sent, and returns the names of the others.
    pub(in crate::relay) fn settle_suspicions(
        &self,
        is_sent: impl Fn(&CapturedTable) -> bool,
    ) -> Vec<String> {
        let mut remembered = self.lock();
        remembered.suspicions.retain(|table, _| !is_sent(table));
        remembered.suspicions.list().map(|(table, _)| table.full_name()).collect()
    }

    /// Settles the suspicions of this LSN, as the operator asks. Returns false if there is none.
    pub(in crate::relay) fn accept_suspicions(&self, lsn: Lsn) -> bool {
        self.lock().suspicions.retain(|_, suspicion| suspicion.lsn != lsn)
    }

    /// Returns whether suspicions, or how tables are published, have changed since the last call, so that they must be stored.
    pub(in crate::relay) fn take_unstored(&self) -> bool {
        self.lock().suspicions.take_changed()
    }

    /// Records that a poll of the catalog that began then has found no reason to end the relay.
    pub(in crate::relay) fn judged(&self, began: Instant) {
        self.lock().judged = Some(began);
    }

    /// Returns whether such a poll has begun after `since`.
    pub(in crate::relay) fn is_judged_since(&self, since: Instant) -> bool {
        self.lock().judged.is_some_and(|began| began > since)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Remembered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::suspicion::SuspicionCause;
    use super::*;
    use crate::postgres::{Storage, TableOptions};

    fn table(oid: u32, root: u32, name: &str) -> CapturedTable {
        CapturedTable::new(Oid(oid), Oid(root), "public", name)
    }

    fn names(tables: &CapturedTables) -> Vec<String> {
        tables.list().into_iter().map(|table| table.name).collect()
    }

    #[test]
    fn a_table_keeps_the_name_it_was_captured_under() {
        let tables = CapturedTables::default();
        tables.add(table(1, 1, "outbox"));
        tables.add(table(1, 1, "outbox_old"));
        assert_eq!(names(&tables), ["outbox"]);
    }

    #[test]
    fn beyond_their_number_notes_are_counted() {
        let tables = CapturedTables::default();
        for number in 0..NOTES_MAX {
            assert_eq!(tables.note(&number.to_string()), Noted::New);
        }
        assert_eq!(tables.note("0"), Noted::Known);
        assert_eq!(tables.note("more"), Noted::NoRoom { is_first: true });
        assert_eq!(tables.note("more"), Noted::NoRoom { is_first: false });
    }

    #[test]
    fn a_position_of_an_earlier_version_has_no_keys() {
        let old = r#"{"oid":1,"root":1,"schema":"public","name":"outbox"}"#;
        assert_eq!(serde_json::from_str::<CapturedTable>(old).unwrap(), table(1, 1, "outbox"));
        assert_eq!(serde_json::to_string(&table(1, 1, "outbox")).unwrap(), old);
    }

    #[test]
    fn a_suspicion_about_a_partition_is_one_about_its_table_and_is_stored() {
        let tables = CapturedTables::default();
        let all = [table(1, 1, "outbox"), table(2, 1, "outbox_1"), table(3, 3, "other")];
        all.into_iter().for_each(|table| tables.add(table));
        let of = |lsn| Suspicion::new(SuspicionCause::Rewritten, Lsn::new(lsn));
        let warning = |lsn| of(lsn).warning("public.outbox_1");
        tables.suspect(table(2, 1, "outbox_1"), of(10));
        assert!(tables.take_unstored() && !tables.take_unstored());
        assert_eq!(tables.suspicion_of(Oid(1)), Some(warning(10)));
        assert_eq!(tables.suspicion_of(Oid(3)), None);
        // Of the next process.
        let next = CapturedTables::default();
        let stored = serde_json::to_string(&tables.list_kept()).unwrap();
        next.remember(serde_json::from_str(&stored).unwrap(), &TableFilter::default());
        assert_eq!(next.suspicions(), [warning(10)]);
        assert_eq!(next.list_kept(), tables.list_kept());
        next.suspect(table(2, 1, "outbox_1"), of(20));
        assert!(!next.accept_suspicions(Lsn::new(10)), "there is a later one");
        assert!(next.accept_suspicions(Lsn::new(20)) && next.suspicions().is_empty());
        tables.forget(Oid(1));
        assert!(tables.suspicions().is_empty());
    }

    #[test]
    fn a_poll_proves_nothing_about_what_came_after_its_begin() {
        let (tables, start) = (CapturedTables::default(), Instant::now());
        let later = start + Duration::from_secs(1);
        assert!(!tables.is_judged_since(start), "there was none");
        tables.judged(start);
        assert!(!tables.is_judged_since(start));
        tables.judged(later);
        assert!(tables.is_judged_since(start) && !tables.is_judged_since(later));
    }

    fn version(oid: u32) -> TableVersion {
        TableVersion {
            oid: Oid(oid),
            root: Oid(1),
            schema: "public".to_owned(),
            name: format!("outbox_{oid}"),
            parent: None,
            ancestors: Vec::new(),
            storage: Storage::Logged,
            filenode: Oid(0),
            toast: Oid(0),
            sequences: Vec::new(),
        }
    }

    #[test]
    fn without_room_a_partition_that_is_gone_makes_way_for_a_new_one() {
        let tables = CapturedTables::default();
        let max = u32::try_from(CAPTURED_TABLES_MAX).unwrap();
        let all: Vec<_> = (1..=max).map(version).collect();
        tables.learn(&all);
        let has = |oid: u32| tables.get(Oid(oid)).is_some();
        tables.learn(&[&all[..], &[version(max + 1)]].concat());
        assert!(has(1) && has(2) && has(max) && !has(max + 1), "none is gone");
        tables.learn(&[&all[3..], &[version(max + 1)]].concat());
        assert!(has(1) && !has(2) && has(3) && has(max + 1), "the oldest of those that are gone");
        assert_eq!(tables.list().len(), CAPTURED_TABLES_MAX);
        let kept = tables.list_kept();
        let oids: Vec<_> = kept.iter().map(|table| table.oid).collect();
        assert_eq!(kept.len(), KEPT_TABLES_MAX);
        assert!(oids.is_sorted() && oids.first() == Some(&1) && oids.last() == Some(&(max + 1)), "{oids:?}");
        let json = serde_json::to_string(&kept).unwrap();
        assert!(json.len() < 100_000, "{} bytes", json.len());
    }

    #[test]
    fn what_the_lists_name_no_more_is_forgotten_with_its_partitions() {
        let table_include = vec![r"public\.outbox".to_owned(), r"public\.kept_2".to_owned()];
        let filter = TableFilter::new(&TableOptions { table_include, ..TableOptions::default() }).unwrap();
        let history = vec![
            table(1, 1, "outbox"),
            table(2, 1, "outbox_1"),
            table(3, 3, "dropped"),
            table(4, 3, "dropped_1"),
            table(5, 3, "kept_2"),
        ];
        let tables = CapturedTables::default();
        tables.remember(history, &filter);
        assert_eq!(names(&tables), ["outbox", "outbox_1", "kept_2"]);
    }
}
