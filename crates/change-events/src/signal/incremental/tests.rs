//! The incremental snapshot between a model of a database and a consumer: for all writes and all orders of
//! events, the last record of each key is the row in the table.

use std::collections::VecDeque;

use proptest::prelude::*;

use super::world::*;
use super::*;
use crate::signal::ReadRow;

const EXECUTE: &str = r#"{"data-collections":["public.a"]}"#;

#[derive(Debug, Clone)]
enum Step {
    Write {
        key: u8,
        value: Option<u32>,
        slowly: bool,
    },
    Show,
    Act,
    Hear,
    Stream,
    Lose,
    /// Ends the session; another one continues from its last transaction.
    Reconnect,
    Rekey,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0_u8..12, prop::option::weighted(0.8, 100_u32..999), any::<bool>())
            .prop_map(|(key, value, slowly)| Step::Write { key, value, slowly }),
        2 => Just(Step::Show),
        4 => Just(Step::Act),
        4 => Just(Step::Hear),
        6 => Just(Step::Stream),
        1 => Just(Step::Lose),
        1 => Just(Step::Reconnect),
        1 => Just(Step::Rekey),
    ]
}

proptest! {
    #[test]
    fn the_last_record_of_each_key_is_the_row_in_the_table(
        rows in prop::collection::btree_map(0_u8..12, 1_u32..99, 0..8),
        steps in prop::collection::vec(step(), 0..120),
    ) {
        let mut world = World::new(rows, StoredCheckpoint::default());
        world.snapshot.apply(&signal("execute-snapshot", EXECUTE));
        world.snapshot.commit(Lsn::new(1));
        for step in steps {
            match step {
                Step::Write { key, value, slowly } => world.write(key, value, slowly),
                Step::Show => world.show(),
                Step::Act => world.act(),
                Step::Hear => world.receive(),
                Step::Stream => world.stream(),
                Step::Lose => world.lose(),
                Step::Rekey => world.is_rekeyed = !world.is_rekeyed,
                Step::Reconnect => {
                    let state = world.snapshot.at(Lsn::new(world.lsn.max(1)), 0);
                    let state = serde_json::from_slice(&serde_json::to_vec(&state).unwrap()).unwrap();
                    (world.asked, world.answer) = (None, None);
                    world.snapshot = Incremental::new(2, true, id, state);
                }
            }
        }
        world.finish();
        prop_assert_eq!(&world.consumer, &world.visible);
    }
}

/// A relay that sends rows in Kafka transactions, one by one.
struct Transactions {
    world: World,
    /// The rows of the chunk that is being sent. `waiting` is the row that is not sent yet.
    rows: VecDeque<ReadRow>,
    waiting: Option<ReadRow>,
    /// The commit LSN of the transaction with the second watermark.
    open: Option<Lsn>,
    sent: Vec<String>,
    committed: Vec<String>,
    kept: StoredCheckpoint,
}

#[derive(Debug, Clone, Copy)]
enum Happens {
    Act,
    Hear,
    Stream,
    Take,
    Send,
    Commit,
    Crash,
}

impl Transactions {
    fn happens(&mut self, what: Happens) {
        match what {
            Happens::Act if self.rows.is_empty() && self.waiting.is_none() => self.world.act(),
            Happens::Act => {}
            Happens::Hear => self.world.receive(),
            Happens::Stream => self.stream(),
            Happens::Take if self.waiting.is_none() => {
                self.waiting = self.rows.pop_front();
                let place = self.waiting.as_ref().and_then(|row| row.place.clone());
                self.world.snapshot.begin_row(place);
            }
            Happens::Take => {}
            Happens::Send => {
                let Some(row) = self.waiting.take() else { return };
                self.sent.push(row.place.unwrap()[0].clone().unwrap());
                self.world.snapshot.end_row();
            }
            Happens::Commit => {
                self.committed = self.sent.clone();
                self.kept = self.world.snapshot.handed_over(self.open);
            }
            Happens::Crash => {
                self.sent = self.committed.clone();
                let kept = serde_json::from_slice(&serde_json::to_vec(&self.kept).unwrap()).unwrap();
                self.world.snapshot = Incremental::new(3, true, id, kept);
                (self.world.asked, self.world.answer, self.open, self.waiting) = (None, None, None, None);
                self.world.log.clear();
                self.rows.clear();
            }
        }
    }

    fn stream(&mut self) {
        if !self.rows.is_empty() || self.waiting.is_some() {
            return;
        }
        if let Some(open) = self.open.take() {
            return self.world.snapshot.commit(Lsn::new(open.get() + 5));
        }
        match self.world.log.front() {
            Some(Entry::Watermark(id)) if id.ends_with("-close") => {
                self.world.lsn += 10;
                self.open = Some(Lsn::new(self.world.lsn));
                self.rows = self.world.snapshot.close(id).map(|chunk| chunk.rows).unwrap_or_default();
                self.world.log.pop_front();
            }
            _ => self.world.stream(),
        }
    }
}

fn happens() -> impl Strategy<Value = Happens> {
    use Happens::{Act, Commit, Crash, Hear, Send, Stream, Take};
    prop::sample::select(vec![Act, Hear, Stream, Take, Send, Act, Hear, Stream, Take, Send, Commit, Crash])
}

proptest! {
    /// Checks any end of Kafka transactions and any crash of the process.
    #[test]
    fn with_what_a_kafka_transaction_says_each_row_is_committed_once(
        rows in prop::collection::btree_map(0_u8..12, 1_u32..99, 0..9),
        steps in prop::collection::vec(happens(), 0..200),
    ) {
        let mut expected: Vec<_> = rows.keys().map(u8::to_string).collect();
        let mut world = World::new(rows, StoredCheckpoint::default());
        world.snapshot.apply(&signal("execute-snapshot", EXECUTE));
        world.snapshot.commit(Lsn::new(1));
        let kept = world.snapshot.handed_over(None);
        let (sent, committed) = (Vec::new(), Vec::new());
        let mut transactions =
            Transactions { world, rows: VecDeque::new(), waiting: None, open: None, sent, committed, kept };
        steps.into_iter().for_each(|step| transactions.happens(step));
        for _ in 0..200 {
            use Happens::{Act, Commit, Hear, Send, Stream, Take};
            [Act, Hear, Stream, Take, Send, Commit].into_iter().for_each(|step| transactions.happens(step));
        }
        prop_assert!(!transactions.world.snapshot.state.is_running());
        transactions.committed.sort();
        expected.sort();
        prop_assert_eq!(transactions.committed, expected);
    }
}

/// A chunk is read to its end before a stop is executed; a crash may come first.
#[test]
fn a_stop_that_waits_is_kept() {
    let mut world = World::new((1..=3).map(|key| (key, 0)).collect(), StoredCheckpoint::default());
    world.snapshot.apply(&signal("execute-snapshot", EXECUTE));
    world.snapshot.commit(Lsn::new(1));
    world.act();
    world.snapshot.apply(&signal("stop-snapshot", "{}"));
    world.snapshot.commit(Lsn::new(5));
    assert!(world.snapshot.state.is_running());
    for kept in [world.snapshot.at(Lsn::new(5), 0), world.snapshot.handed_over(None)] {
        let kept = serde_json::from_slice(&serde_json::to_vec(&kept).unwrap()).unwrap();
        assert!(!Incremental::new(3, true, id, kept).state.is_running());
    }
}

#[test]
fn a_snapshot_reports_how_far_it_is() {
    let mut world = World::new((1..=3).map(|key| (key, 0)).collect(), StoredCheckpoint::default());
    world.snapshot.apply(&signal("execute-snapshot", r#"{"data-collections":["public.a","public.b"]}"#));
    world.finish();
    use SnapshotStatus::{CollectionsResolved, Completed, InProgress, Started, TableScanCompleted};
    let expected = [
        Started,
        CollectionsResolved,
        InProgress,
        InProgress,
        TableScanCompleted,
        InProgress,
        InProgress,
        TableScanCompleted,
        Completed,
    ];
    assert_eq!(world.statuses(), expected);
}

#[test]
fn a_snapshot_is_paused_resumed_and_stopped() {
    let mut world = World::new((1..=9).map(|key| (key, 0)).collect(), StoredCheckpoint::default());
    world.snapshot.apply(&signal("stop-snapshot", "{}"));
    world.snapshot.apply(&signal("execute-snapshot", EXECUTE));
    world.snapshot.apply(&signal("pause-snapshot", "{}"));
    for _ in 0..100 {
        world.act();
        world.receive();
        world.stream();
    }
    // The chunk in progress is finished.
    assert_eq!(world.consumer.len(), 2);
    world.snapshot.apply(&signal("resume-snapshot", "{}"));
    world.act();
    world.snapshot.apply(&signal("stop-snapshot", r#"{"data-collections":["public.a"]}"#));
    world.finish();
    assert_eq!(world.consumer.len(), 4);
    use SnapshotStatus::{Aborted, CollectionsResolved, InProgress, Paused, Resumed, Started};
    assert_eq!(
        world.statuses(),
        [Started, CollectionsResolved, Paused, InProgress, Resumed, InProgress, Aborted]
    );
}

#[test]
fn rows_whose_changes_have_no_key_are_read_again() {
    let mut world = World::new((1..=2).map(|key| (key, 0)).collect(), StoredCheckpoint::default());
    world.snapshot.apply(&signal("execute-snapshot", EXECUTE));
    for _ in 0..4 {
        world.act();
        world.receive();
    }
    world.snapshot.changed_unknown(TABLE);
    world.finish();
    assert_eq!(world.consumer.len(), 2);
    let scans = world.statuses().into_iter().filter(|status| *status == SnapshotStatus::InProgress).count();
    assert_eq!(scans, 2);
}
