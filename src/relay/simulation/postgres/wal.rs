//! Committed transactions: the write-ahead log as logical decoding sees it.

use std::rc::Rc;

use fastrand::Rng;

use super::catalog::{CapturedBy, Catalog, CatalogTable, Columns};
use super::ddl::Oids;
use crate::relay::simulation::oracle::truth::{Event, Row, Truth};
use crate::relay::simulation::rows::changes;
use crate::relay::simulation::rows::table;
use crate::relay::simulation::rows::table::Becomes;
use crate::wal::PgTimestamp;

const KEYS: u8 = 6;

/// End of the WAL when a simulation begins: far enough for a page before it.
const BEGAN: u64 = 20_000;

const FIRST_XID: u32 = 700;
/// Begin of every simulation. The relays' clock stands still; each transaction commits later than the last.
pub(in crate::relay::simulation) const BEGAN_UNIX_US: i64 = 1_700_000_000_000_000;

/// More than clocks and commit records may disagree by.
const SECONDS_BETWEEN_US: i64 = 10_000_000;

/// A piece of the WAL that is sent in one go.
#[derive(Debug)]
pub(super) enum Piece {
    Transaction {
        commit: u64,
        end: u64,
        xid: u32,
        at: PgTimestamp,
        changes: Vec<Change>,
        unpublished: bool,
        /// Catalog after its commit.
        catalog: Rc<Catalog>,
    },
    /// A logical message outside a transaction, with its record.
    Message { start: u64, end: u64, bytes: Vec<u8> },
}

#[derive(Debug)]
pub(in crate::relay::simulation) struct Change {
    pub(in crate::relay::simulation) lsn: u64,
    /// The relation as the catalog has it at this point, for rows.
    pub(in crate::relay::simulation) relation: Option<CatalogTable>,
    pub(in crate::relay::simulation) bytes: Vec<u8>,
}

impl Piece {
    /// Returns the LSN that decides whether it is sent again: it is, unless the confirmed position is beyond
    /// this.
    pub(in crate::relay::simulation) const fn decides(&self) -> u64 {
        match self {
            Self::Transaction { commit, .. } => *commit,
            Self::Message { start, .. } => *start,
        }
    }

    pub(in crate::relay::simulation) const fn end(&self) -> u64 {
        match self {
            Self::Transaction { end, .. } | Self::Message { end, .. } => *end,
        }
    }
}

#[derive(Debug)]
pub(in crate::relay::simulation) struct Wal {
    pub(super) pieces: Vec<Piece>,
    pub(in crate::relay::simulation) end: u64,
    xid: u32,
    /// Clock that never goes back, even if the history does.
    pub(in crate::relay::simulation) clock: PgTimestamp,
    pub(in crate::relay::simulation) catalog: Rc<Catalog>,
    /// Catalog before everything.
    first_catalog: Rc<Catalog>,
    pub(in crate::relay::simulation) oids: Oids,
    pub(in crate::relay::simulation) captured_by: CapturedBy,
    pub(in crate::relay::simulation) published: bool,
    /// Number of times that the publication was created.
    publications: u32,
}

impl Wal {
    pub(in crate::relay::simulation) fn new(rng: &mut Rng, truth: &mut Truth) -> Self {
        let catalog = Rc::new(Catalog::new(rng));
        // Any table has the columns that change events need.
        let captured_by = if truth.changes { CapturedBy::List } else { CapturedBy::any(rng) };
        truth.altered(&catalog, captured_by);
        Self {
            pieces: Vec::new(),
            end: BEGAN,
            xid: FIRST_XID,
            clock: PgTimestamp::from_unix_us(BEGAN_UNIX_US),
            first_catalog: Rc::clone(&catalog),
            catalog,
            oids: Oids::new(),
            captured_by,
            published: true,
            publications: 1,
        }
    }

    /// Cuts off what is behind this number of pieces, or behind `floor`; returns where the WAL ends now.
    pub(in crate::relay::simulation) fn cut(&mut self, pieces: usize, floor: u64) -> u64 {
        self.pieces.truncate(pieces);
        self.end = self.pieces.last().map_or(floor, |piece| piece.end().max(floor));
        let xids = self.pieces.iter().filter_map(|piece| match piece {
            Piece::Transaction { xid, .. } => Some(*xid),
            Piece::Message { .. } => None,
        });
        self.xid = xids.max().unwrap_or(FIRST_XID);
        let catalogs = self.pieces.iter().rev().filter_map(|piece| match piece {
            Piece::Transaction { catalog, .. } => Some(catalog),
            Piece::Message { .. } => None,
        });
        self.catalog = Rc::clone(catalogs.clone().next().unwrap_or(&self.first_catalog));
        self.end
    }

    /// Writes noise: another database's WAL, or a transaction that rolls back.
    pub(in crate::relay::simulation) fn write_noise(&mut self, rng: &mut Rng) {
        self.end += rng.u64(1..200);
    }

    /// Commits a transaction, or writes a message outside one.
    pub(in crate::relay::simulation) fn commit(&mut self, rng: &mut Rng, truth: &mut Truth) {
        if !truth.changes && rng.u8(..) < 20 {
            return self.write_message(rng, truth);
        }
        // Its rows may lie between those of earlier transactions, and may be a COPY's, which share an LSN.
        let mut lsn = self.end.saturating_sub(rng.u64(0..120)).max(BEGAN - 100);
        let copies = rng.u8(..) < 60;
        let rows = if rng.u8(..) < 12 { rng.usize(8..24) } else { rng.usize(0..4) };
        let commit = self.end.max(lsn + 8 * (rows as u64 + 1)) + if rng.bool() { 0 } else { rng.u64(8..40) };
        let mut changes = Vec::new();
        for _ in 0..rows {
            changes.extend(self.change(rng, truth, lsn, commit));
            lsn += if copies { 0 } else { rng.u64(1..=8) };
        }
        self.push(commit, changes);
    }

    /// Commits a transaction that alters only the catalog.
    pub(super) fn set_catalog(&mut self, catalog: Catalog) {
        self.catalog = Rc::new(catalog);
        self.push(self.end, Vec::new());
    }

    pub(in crate::relay::simulation) fn set_published(&mut self, published: bool) {
        self.publications += u32::from(published && !self.published);
        self.published = published;
    }

    /// Returns the number of the present publication, if there is one.
    pub(in crate::relay::simulation) fn publication(&self) -> Option<u32> {
        self.published.then_some(self.publications)
    }

    /// Returns whether the publication was ever dropped.
    pub(in crate::relay::simulation) const fn was_unpublished(&self) -> bool {
        !self.published || self.publications > 1
    }

    fn push(&mut self, commit: u64, changes: Vec<Change>) {
        self.xid += 1;
        self.end = commit + 48;
        let (end, xid, unpublished) = (self.end, self.xid, !self.published);
        self.clock = PgTimestamp(self.clock.0 + SECONDS_BETWEEN_US);
        let catalog = Rc::clone(&self.catalog);
        self.pieces.push(Piece::Transaction {
            commit,
            end,
            xid,
            at: self.clock,
            changes,
            unpublished,
            catalog,
        });
    }

    fn change(&self, rng: &mut Rng, truth: &mut Truth, lsn: u64, commit: u64) -> Option<Change> {
        match rng.u8(..) {
            0..30 => {
                let elsewhere = |table: &&CatalogTable| {
                    table.oid != self.catalog.outbox
                        && table.root != Some(self.catalog.outbox)
                        && !table.partitioned
                };
                let table = rng.choice(self.catalog.tables.iter().filter(elsewhere).collect::<Vec<_>>());
                self.row(table?, rng, truth, (lsn, commit))
            }
            30..60 if truth.changes => self.row(&self.leaf(rng)?, rng, truth, (lsn, commit)),
            30..45 => {
                let relation = self.catalog.published(&self.leaf(rng)?)?;
                Some(Change { lsn, relation: Some(relation), bytes: table::noise(relation.oid, true) })
            }
            45..60 => {
                let (number, topic, key) = self.event(rng, truth, commit, None);
                Some(Change { lsn, relation: None, bytes: table::message(lsn, true, number, topic, key) })
            }
            60.. => self.row(&self.leaf(rng)?, rng, truth, (lsn, commit)),
        }
    }

    /// Returns the table or the partition that a row of the outbox goes to.
    fn leaf(&self, rng: &mut Rng) -> Option<CatalogTable> {
        let outbox = self.catalog.get(self.catalog.outbox)?;
        match outbox.partitioned {
            true => rng.choice(self.catalog.partitions(outbox.oid).copied().collect::<Vec<_>>()),
            false => Some(*outbox),
        }
    }

    /// Writes a row of any table, an event if it has the columns.
    fn row(&self, table: &CatalogTable, rng: &mut Rng, truth: &mut Truth, at: (u64, u64)) -> Option<Change> {
        let relation = self.catalog.published(table)?;
        let (lsn, commit) = at;
        let root = table.root.and_then(|root| self.catalog.get(root)).unwrap_or(table);
        let named = relation.is_captured(self.captured_by);
        let row = Row { relation: relation.oid, root: root.oid, named, unpublished: !self.published };
        let bytes = match relation.columns {
            _ if truth.changes => changes::change(&relation, row, rng, truth, commit),
            Columns::Orders => table::noise(relation.oid, false),
            Columns::Outbox { .. } => {
                let (number, topic, key) = self.event(rng, truth, commit, Some(row));
                table::insert(&relation, number, topic, key)
            }
        };
        Some(Change { lsn, relation: Some(relation), bytes })
    }

    fn write_message(&mut self, rng: &mut Rng, truth: &mut Truth) {
        let (start, end) = (self.end, self.end + rng.u64(8..80));
        let (number, topic, key) = self.event(rng, truth, start, None);
        self.end = end;
        self.pieces.push(Piece::Message {
            start,
            end,
            bytes: table::message(end, false, number, topic, key),
        });
    }

    fn event(
        &self,
        rng: &mut Rng,
        truth: &mut Truth,
        commit_lsn: u64,
        row: Option<Row>,
    ) -> (usize, usize, u8) {
        let (topic, key) = (rng.usize(0..2), rng.u8(0..KEYS));
        let event = Event { commit_lsn, topic, key, of: None, row, excused: false, written: false };
        let number = truth.commit(event.clone());
        let elsewhere = match table::becomes(&table::key(key)) {
            Becomes::Record => return (number, topic, key),
            Becomes::RecordAndTombstone => topic,
            Becomes::RecordAndTombstoneElsewhere => 1 - topic,
        };
        truth.commit(Event { topic: elsewhere, of: Some(number), ..event });
        (number, topic, key)
    }
}
