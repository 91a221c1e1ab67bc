//! The window of a chunk on a standby, which writes no watermarks: its replay position replaces them.
//!
//! A standby sends a transaction only after it has replayed the commit, and a later read sees the
//! transaction. So the transactions that the stream has sent before the chunk is read are in the chunk. Those
//! that commit after `low` may not be, and wait for the rows. Those that commit before `high` have arrived
//! when the stream reaches that LSN.

use super::{Incremental, Sendable, Stage, Step};
use pg_replication::wal::Lsn;

impl Incremental {
    pub(super) fn replayed(&mut self, step: Step, lsn: Lsn) {
        match step {
            Step::Open => (self.low, self.stage) = (Some(lsn), Stage::Ask(Step::Read)),
            Step::Close => (self.high, self.stage) = (Some(lsn), Stage::Filled),
            Step::Read => {}
        }
    }

    /// Reports whether a transaction with this commit LSN must wait for the chunk's rows, because the chunk
    /// may not include it.
    pub fn awaits_rows_before(&self, commit_lsn: Lsn) -> bool {
        let reads = matches!(self.stage, Stage::Ask(Step::Read) | Stage::Asked(Step::Read));
        reads && self.low.is_some_and(|low| commit_lsn >= low)
    }

    /// Reports whether the window closes once the stream has sent everything before `reached`.
    pub fn closes_at(&self, reached: Lsn) -> bool {
        self.stage == Stage::Filled && self.high.is_some_and(|high| reached >= high)
    }

    /// Sets the checkpoint after the rows of a window, which applies once this ticket is settled.
    pub fn commit_beside(&mut self, reached: Lsn, ticket: Option<usize>) {
        self.checkpoints.keep_beside(reached, ticket, &self.state);
        self.handed_over.end_transaction(reached);
    }

    /// Returns a number that changes when another checkpoint comes into effect without the end of a
    /// transaction.
    pub const fn beside(&self) -> u64 {
        self.checkpoints.beside()
    }

    /// Closes the window, if it ends here; returns its rows, which must be sent.
    pub fn close_at(&mut self, reached: Lsn) -> Option<Sendable> {
        if self.closes_at(reached) { self.end_window() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::super::*;
    use crate::signal::ReadRow;
    use crate::signal::{PgSnapshot, Signal};

    const TABLE: &str = "public.a";
    const OID: Oid = Oid(7);

    type Rows = BTreeMap<u8, u32>;

    /// The transaction at index `n` commits at `10 * n + 5` and ends at `10 * n + 10`.
    #[derive(Debug, Clone, Copy)]
    struct Transaction {
        key: u8,
        value: Option<u32>,
    }

    /// A standby between a log and a relay. `replayed` and `sent` are numbers of transactions.
    struct World {
        snapshot: Incremental,
        log: Vec<Transaction>,
        replayed: usize,
        /// True if the next transaction is visible, but not counted as replayed.
        ahead: bool,
        sent: usize,
        consumer: Rows,
        /// The index of the last sent transaction of each key: a record must not be older than the one
        /// before.
        places: BTreeMap<u8, usize>,
        answer: Option<Answer>,
    }

    fn end_of(count: usize) -> Lsn {
        Lsn::new(10 * u64::try_from(count).unwrap())
    }

    fn commit_of(index: usize) -> Lsn {
        Lsn::new(10 * u64::try_from(index).unwrap() + 5)
    }

    fn new_id() -> String {
        "chunk".to_owned()
    }

    impl World {
        fn new(log: Vec<Transaction>, replayed: usize) -> Self {
            let mut snapshot = Incremental::new(2, false, new_id, StoredCheckpoint::default());
            snapshot.know(TABLE.to_owned());
            let data = format!(r#"{{"data-collections":["{TABLE}"]}}"#);
            snapshot.apply(&Signal::parse("s", "execute-snapshot", Some(&data)).unwrap());
            let mut world = Self {
                snapshot,
                log,
                replayed,
                ahead: false,
                sent: 0,
                consumer: Rows::new(),
                places: BTreeMap::new(),
                answer: None,
            };
            // The slot is created here: earlier transactions come by the snapshot only.
            world.sent = replayed;
            world
        }

        /// Returns the table after this number of transactions.
        fn table(&self, count: usize) -> Rows {
            let mut rows = Rows::new();
            for Transaction { key, value } in &self.log[..count] {
                match value {
                    Some(value) => drop(rows.insert(*key, *value)),
                    None => drop(rows.remove(key)),
                }
            }
            rows
        }

        fn replay(&mut self) {
            if self.ahead {
                (self.replayed, self.ahead) = (self.replayed + 1, false);
            } else if self.replayed < self.log.len() {
                self.ahead = true;
            }
        }

        fn visible(&self) -> usize {
            self.replayed + usize::from(self.ahead)
        }

        fn act(&mut self) {
            if self.answer.is_some() {
                return;
            }
            let Some(ask) = self.snapshot.next_ask() else { return };
            self.answer = Some(match ask {
                Ask::Open { .. } | Ask::Close { .. } => Answer::Replayed(end_of(self.replayed)),
                Ask::Read { request, .. } => Answer::Read(self.read(&request)),
            });
        }

        fn read(&self, request: &ChunkRequest) -> Result<Chunk, NoChunk> {
            let rows = self.table(self.visible());
            let number = |key: &ChunkKey| key[0].as_ref().unwrap().parse::<u8>().unwrap();
            let text = |key: u8| vec![Some(key.to_string())];
            let end = match &request.end {
                Some(end) => end.clone(),
                None => text(*rows.keys().next_back().ok_or(NoChunk::Empty)?),
            };
            let after = request.after.as_ref().map(number);
            let read: Vec<_> = rows
                .into_iter()
                .filter(|(key, _)| after.is_none_or(|after| *key > after) && *key <= number(&end))
                .take(request.rows_max)
                .collect();
            let last = read.last().map(|(key, _)| text(*key));
            let row = |(key, value): (u8, u32)| ReadRow {
                key: vec![Some(vec![key])],
                values: vec![Some(value.to_string().into_bytes())],
                place: None,
            };
            let visible = PgSnapshot::parse("1:1000:").unwrap();
            let rows = read.into_iter().map(row).collect();
            Ok(Chunk { table: OID, rows, last, end, columns: Vec::new(), total: None, visible })
        }

        fn answer(&mut self) {
            if let Some(answer) = self.answer.take() {
                self.snapshot.answer(answer, &Recent::default());
                self.close();
            }
        }

        /// Sends the next transaction of the stream, if it has been replayed and need not wait.
        fn stream(&mut self) {
            if self.sent >= self.replayed || self.snapshot.awaits_rows_before(commit_of(self.sent)) {
                return;
            }
            let Transaction { key, value } = self.log[self.sent];
            self.sent += 1;
            self.snapshot.changed(TABLE, &vec![Some(vec![key])]);
            self.report(key, value, self.sent);
            self.snapshot.commit(end_of(self.sent));
            self.close();
        }

        fn close(&mut self) {
            let Some(Sendable { rows, .. }) = self.snapshot.close_at(end_of(self.sent)) else { return };
            for row in rows {
                let key = row.key[0].as_ref().unwrap()[0];
                let value = String::from_utf8(row.values[0].clone().unwrap()).unwrap().parse().unwrap();
                // The newest transaction with this value.
                let place = self.log.iter().rposition(|it| it.key == key && it.value == Some(value));
                self.report(key, Some(value), place.unwrap() + 1);
            }
        }

        fn report(&mut self, key: u8, value: Option<u32>, place: usize) {
            match value {
                Some(value) => drop(self.consumer.insert(key, value)),
                None => drop(self.consumer.remove(&key)),
            }
            let before = self.places.insert(key, place).unwrap_or_default();
            assert!(before <= place, "key {key} goes back from {before} to {place}");
        }
    }

    fn transactions() -> impl Strategy<Value = Vec<Transaction>> {
        let one = (0..8_u8, any::<bool>(), any::<bool>());
        prop::collection::vec(one, 1..60).prop_map(|log| {
            let one = |(number, (key, a, b)): (usize, (u8, bool, bool))| {
                let value = u32::try_from(number).unwrap();
                Transaction { key, value: (a || b).then_some(value) }
            };
            log.into_iter().enumerate().map(one).collect()
        })
    }

    proptest! {
        /// The order of replay, stream and requests does not matter.
        #[test]
        fn the_last_record_of_each_key_is_its_row_and_none_goes_back(
            log in transactions(),
            replayed in 0..30_usize,
            steps in prop::collection::vec(0..4_u8, 0..400),
        ) {
            let replayed = replayed.min(log.len());
            let mut world = World::new(log, replayed);
            for step in steps {
                match step {
                    0 => world.replay(),
                    1 => world.stream(),
                    2 => world.act(),
                    _ => world.answer(),
                }
            }
            for _ in 0..1_000 {
                world.replay();
                world.stream();
                world.act();
                world.answer();
            }
            prop_assert_eq!(world.sent, world.log.len());
            let table = world.table(world.log.len());
            prop_assert_eq!(world.consumer, table);
        }
    }
}
