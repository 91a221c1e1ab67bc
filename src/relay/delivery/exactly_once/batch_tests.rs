//! The batch against a naive model of what is committed.

use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::batch::{Batch, Names, Patience, Step, Urgency};
use super::known::Known;
use super::state::{Place, Seen, Source, State};
use crate::ack::{Ticket, Window};
use crate::kafka::{self, Delivered, Reports};
use crate::transaction::{EventPosition, Identity};
use crate::wal::{Lsn, PgTimestamp, Xid};

const INTERVAL: Duration = Duration::from_millis(100);

/// The server's clock when the stream began.
const START: PgTimestamp = PgTimestamp(10);

/// A batch, and the window that it shares with the flight.
struct Bench {
    batch: Batch,
    window: Window,
    start: Instant,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        let names = Names { id: "id".to_owned(), state_topic: "state".to_owned() };
        let batch = Batch::new(
            names,
            Known::nothing(START),
            Source::default(),
            Patience::new(INTERVAL, Duration::from_secs(60)),
        );
        let start = Instant::now();
        Self { batch, window: Window::new(10, 1_000), start, now: start }
    }

    /// Makes a bench whose one row is being committed.
    fn committing() -> Self {
        let mut bench = Self::new();
        bench.send(100, 0);
        bench.step(Urgency::Now, false);
        bench.deliver(0, 1);
        bench.deliver(Ticket::STATE.0, 1);
        assert_eq!(bench.step(Urgency::Now, false), Step::Commit);
        bench
    }

    fn send(&mut self, commit_lsn: u64, ordinal: u64) {
        self.send_to("topic", commit_lsn, ordinal);
    }

    fn send_to(&mut self, topic: &str, commit_lsn: u64, ordinal: u64) {
        assert!(self.batch.is_open());
        let event = EventPosition::new(Lsn::new(commit_lsn), Lsn::ZERO, ordinal);
        self.batch.sent(topic, Some(Place::inside(event, false)));
        self.window.enter(1);
    }

    fn step(&mut self, urgency: Urgency, in_transaction: bool) -> Step {
        self.batch.step(self.now, urgency, in_transaction, &self.window)
    }

    fn take(&mut self, mut reports: Reports) -> Reports {
        self.batch.take(&mut reports);
        let delivered: usize = reports.delivered.iter().map(|delivered| delivered.records).sum();
        self.window.leave(delivered + reports.failed_records, delivered + reports.failed_bytes);
        reports
    }

    fn deliver(&mut self, ticket: usize, records: usize) -> Reports {
        let delivered = vec![Delivered { ticket: Ticket(ticket), records, bytes: records }];
        self.take(Reports { delivered, ..Reports::default() })
    }

    fn end(&mut self, outcome: Result<(), kafka::Error>) -> Reports {
        self.take(Reports { ended: Some(outcome), ..Reports::default() })
    }

    fn later(&mut self, millis: u64) {
        self.now = self.start + Duration::from_millis(millis);
    }
}

fn unknown() -> kafka::Error {
    kafka::Error::Fatal("no answer".to_owned())
}

fn state(step: &Step) -> State {
    let Step::Send { topic, state } = step else { panic!("{step:?} sends no state") };
    assert_eq!(topic, "state");
    (**state).clone()
}

fn place(step: &Step) -> (u64, u64, Option<u64>) {
    let place = state(step).place;
    (place.event.commit_lsn.get(), place.event.ordinal, place.end_lsn.map(Lsn::get))
}

/// Another start must know the history again.
#[test]
fn the_state_says_what_was_seen_of_the_history() {
    let mut bench = Bench::new();
    let begin = |bench: &mut Bench, lsn, xid, time| {
        let identity = Identity::Transaction { xid: Xid(xid), commit_time: PgTimestamp(time) };
        bench.batch.begin(Lsn::new(lsn), identity).unwrap();
    };
    let committed = |bench: &mut Bench| {
        let seen = state(&bench.step(Urgency::Now, false)).seen.unwrap();
        bench.deliver(0, 1);
        bench.deliver(Ticket::STATE.0, 1);
        assert_eq!(bench.step(Urgency::Now, false), Step::Commit);
        bench.end(Ok(()));
        seen
    };
    // What came before the start committed before its time.
    begin(&mut bench, 100, 1, 9);
    bench.send(100, 0);
    assert_eq!(committed(&mut bench), Seen { latest: START, transaction: Some((Xid(1), PgTimestamp(9))) });
    // The clock may be set back, and transactions without rows count.
    begin(&mut bench, 200, 2, 30);
    bench.send(200, 0);
    begin(&mut bench, 210, 3, 40);
    begin(&mut bench, 220, 4, 20);
    let expected = Seen { latest: PgTimestamp(40), transaction: Some((Xid(2), PgTimestamp(30))) };
    assert_eq!(committed(&mut bench), expected);
    bench.batch.begin(Lsn::new(300), Identity::Message(1)).unwrap();
    bench.send(300, 0);
    assert_eq!(committed(&mut bench), Seen { latest: PgTimestamp(40), transaction: None });
}

#[test]
fn an_idle_source_is_committed_at_once_and_acknowledged_behind_the_commit() {
    let mut bench = Bench::new();
    assert_eq!(bench.step(Urgency::Idle, false), Step::None);
    bench.send(100, 0);
    bench.batch.closed(Lsn::new(100), Lsn::new(140));
    assert_eq!(place(&bench.step(Urgency::Idle, false)), (100, 0, Some(140)));
    assert!(!bench.batch.is_open());
    assert_eq!(bench.step(Urgency::Idle, false), Step::None);
    assert_eq!(bench.deliver(7, 1).delivered, []);
    assert_eq!(bench.step(Urgency::Now, false), Step::None, "the state is not acknowledged");
    assert_eq!(bench.deliver(Ticket::STATE.0, 1).delivered, []);
    assert_eq!(bench.step(Urgency::Idle, false), Step::Commit);
    assert!(bench.batch.is_busy());
    assert_eq!(bench.step(Urgency::Idle, false), Step::None);
    let acknowledged = bench.end(Ok(()));
    assert_eq!(acknowledged.delivered, [Delivered { ticket: Ticket(7), records: 1, bytes: 1 }]);
    assert!(bench.batch.is_open() && !bench.batch.is_busy());
    assert_eq!(bench.step(Urgency::Now, false), Step::None);
}

#[test]
fn the_state_names_the_topics_and_there_are_not_too_many() {
    let mut bench = Bench::new();
    for round in 0..2 {
        bench.send_to("b", round, 0);
        bench.send_to("a", round, 1);
        bench.send_to("b", round, 2);
        assert_eq!(state(&bench.step(Urgency::Now, true)).topics, ["a", "b"]);
        bench.deliver(0, 3);
        bench.deliver(Ticket::STATE.0, 1);
        assert_eq!(bench.step(Urgency::Now, true), Step::Commit);
        bench.end(Ok(()));
    }
    bench.window = Window::new(2_000, 2_000);
    let mut topics = (0..).take_while(|n| {
        bench.send_to(&n.to_string(), 2, *n);
        bench.deliver(0, 1);
        bench.step(Urgency::More, true) == Step::None
    });
    assert_eq!(topics.by_ref().last(), Some(498));
    assert!(!bench.batch.is_open());
}

#[test]
fn a_commit_is_due_by_time_and_by_size() {
    use Urgency::{Idle, More, Now};
    // Records, milliseconds, urgency, inside a source transaction, whether it is due.
    let cases = [
        (1, 0, More, false, false),
        (1, 99, More, false, false),
        (1, 100, More, false, true),
        (1, 0, Idle, false, true),
        (4, 0, More, false, false),
        (5, 0, More, false, true),
        (9, 0, Idle, true, false),
        (9, 4_999, Idle, true, false),
        (9, 5_000, More, true, true),
        (10, 0, More, true, true),
        (1, 0, Now, true, true),
        (0, 10_000, Now, false, false),
    ];
    for (records, millis, urgency, in_transaction, due) in cases {
        let mut bench = Bench::new();
        (0..records).for_each(|ordinal| bench.send(100, ordinal));
        bench.batch.step(bench.start, More, true, &Window::new(100, 1_000));
        bench.later(millis);
        let stepped = bench.step(urgency, in_transaction);
        assert_eq!(stepped != Step::None, due, "{records} {millis} {urgency:?} {in_transaction}");
    }
    let mut bench = Bench::new();
    assert_eq!(bench.batch.due(false), None);
    bench.send(100, 0);
    assert_eq!(bench.step(More, false), Step::None);
    assert_eq!(bench.batch.due(false), Some(bench.start + INTERVAL));
    assert_eq!(bench.batch.due(true), Some(bench.start + Duration::from_secs(5)));
    bench.step(Now, true);
    assert_eq!(bench.batch.due(true), None);
}

#[test]
fn a_transaction_that_is_split_says_how_far_it_is_sent() {
    let mut bench = Bench::new();
    (0..10).for_each(|ordinal| bench.send(100, ordinal));
    assert_eq!(place(&bench.step(Urgency::More, true)), (100, 9, None));
}

#[test]
fn a_heartbeat_alone_says_nothing_of_rows() {
    let mut bench = Bench::new();
    bench.batch.sent("topic", None);
    bench.window.enter(1);
    assert_eq!(bench.step(Urgency::Idle, false), Step::None);
    bench.deliver(Ticket::NONE.0, 1);
    assert_eq!(bench.step(Urgency::Idle, false), Step::Commit);
}

#[test]
fn after_a_commit_of_which_nothing_is_known_nothing_is_acknowledged_and_nothing_sent() {
    let mut bench = Bench::committing();
    let reports = bench.end(Err(unknown()));
    assert_eq!((reports.delivered.len(), reports.failed_records, reports.failed_bytes), (0, 1, 1));
    assert!(bench.batch.take_fault().is_some());
    assert!(!bench.batch.is_open());
    assert_eq!(bench.step(Urgency::Now, false), Step::Abort);
    assert!(bench.batch.is_busy());
    bench.end(Ok(()));
    assert!(!bench.batch.is_busy() && !bench.batch.is_open());
    assert_eq!(bench.step(Urgency::Now, false), Step::None);
}

/// Kafka has promised it, and there is nothing that could be aborted.
#[test]
fn a_commit_that_consumers_do_not_see_is_not_acknowledged_and_not_aborted() {
    let mut bench = Bench::committing();
    let reports = bench.end(Err(kafka::Error::Undecided { topic: "a".to_owned(), partition: 0 }));
    assert_eq!((reports.delivered.len(), reports.failed_records), (0, 1));
    assert!(bench.batch.take_fault().is_some());
    assert_eq!(bench.step(Urgency::Now, false), Step::None);
    assert!(!bench.batch.is_busy() && !bench.batch.is_open());
}

/// What is committed is committed, but the request may arrive again.
#[test]
fn after_a_connection_that_broke_during_a_commit_the_producer_is_not_used_again() {
    let mut bench = Bench::committing();
    bench.take(Reports { coordinator_lost: true, ..Reports::default() });
    assert_eq!(bench.end(Ok(())).delivered.len(), 1);
    assert!(bench.batch.take_fault().is_some() && !bench.batch.is_open());
    assert_eq!(bench.step(Urgency::Now, false), Step::Abort);
}

#[test]
fn a_session_that_is_over_aborts_what_is_open() {
    let mut bench = Bench::new();
    assert_eq!(bench.step(Urgency::Over, false), Step::None);
    assert!(!bench.batch.is_open());
    let mut bench = Bench::new();
    bench.send(100, 0);
    assert_eq!(bench.step(Urgency::Over, true), Step::Abort);
    assert_eq!(bench.deliver(0, 1).failed_records, 1);
    bench.end(Err(unknown()));
    assert!(!bench.batch.is_busy());
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Send,
    Close,
    Deliver,
    Fail,
    Step(Urgency),
    End(bool),
}

fn act() -> impl Strategy<Value = Act> {
    let urgency = prop_oneof![
        4 => Just(Urgency::More), 4 => Just(Urgency::Idle), 2 => Just(Urgency::Now), 1 => Just(Urgency::Over),
    ];
    prop_oneof![
        8 => Just(Act::Send),
        4 => Just(Act::Close),
        8 => Just(Act::Deliver),
        1 => Just(Act::Fail),
        6 => urgency.prop_map(Act::Step),
        6 => (0..8u8).prop_map(|lot| Act::End(lot > 0)),
    ]
}

proptest! {
    /// Whatever happens in which order: what is acknowledged was committed, with a state that covers it; what is committed was
    /// written; everything that was handed over leaves the window at last.
    #[test]
    fn what_is_acknowledged_is_committed(acts in prop::collection::vec(act(), 0..200)) {
        let mut bench = Bench::new();
        // Sent and not written, written, states not written; how many records the running commit holds.
        let (mut sent, mut written, mut states) = (0, 0, 0);
        let (mut committing, mut aborting, mut failed) = (None, false, false);
        let (mut acknowledged, mut committed) = (0, 0);
        let (mut commit_lsn, mut ordinal, mut told) = (100, 0, None);
        for act in acts {
            let mut reports = Reports::default();
            match act {
                Act::Send if bench.batch.is_open() && bench.window.has_room() => {
                    bench.send(commit_lsn, ordinal);
                    (ordinal, sent) = (ordinal + 1, sent + 1);
                }
                Act::Close => {
                    bench.batch.closed(Lsn::new(commit_lsn), Lsn::new(commit_lsn + 10));
                    (commit_lsn, ordinal) = (commit_lsn + 10, 0);
                }
                Act::Deliver if sent > 0 => {
                    reports.delivered.push(Delivered { ticket: Ticket(1), records: 1, bytes: 1 });
                    (sent, written) = (sent - 1, written + 1);
                }
                Act::Deliver if states > 0 => {
                    reports.delivered.push(Delivered { ticket: Ticket::STATE, records: 1, bytes: 9 });
                    states -= 1;
                }
                Act::Fail if sent > 0 => {
                    (reports.failed_records, reports.failed_bytes) = (1, 1);
                    (sent, failed) = (sent - 1, true);
                }
                Act::End(well) if committing.is_some() => {
                    let records = committing.take().unwrap();
                    if well { committed += records; written = 0; } else { failed = true; }
                    reports.ended = Some(if well { Ok(()) } else { Err(unknown()) });
                }
                Act::End(_) if aborting => {
                    (reports.failed_records, reports.failed_bytes) = (sent, sent);
                    (sent, aborting) = (0, false);
                    reports.ended = Some(Ok(()));
                }
                Act::Step(urgency) => match bench.step(urgency, ordinal > 0) {
                    Step::None => {}
                    step @ Step::Send { .. } => {
                        prop_assert!(!failed && states == 0);
                        let (lsn, last, _) = place(&step);
                        prop_assert!(told < Some((lsn, last)), "the state does not move forward");
                        (told, states) = (Some((lsn, last)), 1);
                    }
                    Step::Commit => {
                        prop_assert!(!failed && sent == 0 && states == 0 && committing.is_none());
                        committing = Some(written);
                    }
                    Step::Abort => {
                        prop_assert!(committing.is_none() && !aborting);
                        (aborting, failed) = (true, true);
                    }
                },
                Act::Send | Act::Deliver | Act::Fail | Act::End(_) => {}
            }
            let reports = bench.take(reports);
            acknowledged += reports.delivered.iter().map(|delivered| delivered.records).sum::<usize>();
            prop_assert!(acknowledged <= committed, "{acknowledged} are acknowledged, {committed} committed");
            prop_assert!(!(failed && bench.batch.is_open()), "it goes on after a failure");
        }
        // Everything comes back at last.
        for _ in 0..8 {
            let step = bench.step(Urgency::Over, false);
            let ended = (bench.batch.is_busy() || step == Step::Abort).then_some(Ok(()));
            let reports = Reports { failed_records: sent, failed_bytes: sent, ended, ..Reports::default() };
            sent = 0;
            bench.take(reports);
        }
        prop_assert_eq!(bench.window.records(), 0);
        prop_assert!(!bench.batch.is_busy() && !bench.batch.is_open());
    }
}
