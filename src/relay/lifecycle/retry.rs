//! Decision after a failure: one table from the error, and from the circumstances, to the next action. There
//! is no clock here and no I/O: times and jitter are arguments. The supervisor and the simulation use it.

use std::time::Duration;

use crate::error::{Class, Diagnose as _};
use crate::kafka;
use crate::postgres::{self, DOUBT_LASTS, SlotRetry};
use crate::relay::error::Error;
use crate::relay::time::backoff::Backoff;

/// Interval between two checks of a standby whether the slot is free.
pub(in crate::relay) const STANDBY_INTERVAL: Duration = Duration::from_secs(1);

/// A stream that cannot be understood is asked for again this often: a flipped bit on the way does not come twice.
const GARBLED_RETRIES_MAX: u32 = 3;

/// Most consecutive sessions without progress after a record that Kafka acknowledged and may not have
/// written.
const UNWRITTEN_RETRIES_MAX: u32 = 5;

/// Next action of the relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Next {
    /// Ends with the error.
    Stop,
    /// Ends, because a doubtful refusal has recurred for so long that it is definite.
    Lasts,
    /// Continues at once with a new producer. This is no failed attempt.
    NewProducer,
    /// Tries again after a pause.
    Retry { pause: Duration, producer: Producer },
    /// Another instance of ours has the slot: it asks again after a pause, without a limit.
    StandBy { pause: Duration },
}

/// Producer of the next attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Producer {
    /// The same. With Kafka transactions each session begins with a new one anyway.
    Same,
    /// A new one: the last one's reports cannot be relied on any more.
    New,
}

/// Failed step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Step {
    /// Connecting, and all that comes before the first row.
    Opening,
    /// The stream.
    Session,
}

/// Circumstances of the error.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct Situation {
    pub(in crate::relay) step: Step,
    /// True if the relay was commanded to stop.
    pub(in crate::relay) stopping: bool,
    /// Attempts since something was brought forward.
    pub(in crate::relay) backoff: Backoff,
    /// `errors.max.retries`
    pub(in crate::relay) retries_max: Option<u32>,
    /// Sessions in a row that brought nothing forward.
    pub(in crate::relay) fruitless: u32,
    /// True if another producer repeatedly takes over outboxd's transactions.
    pub(in crate::relay) fenced_again: bool,
    /// A primary was reached before: a standby at its address means that a failover is on its way.
    pub(in crate::relay) reached_primary: bool,
    /// Time left of `outboxd.startup.timeout.ms`, at the start.
    pub(in crate::relay) time_left: Option<Duration>,
    /// Time for which the server has refused with the same code, without progress.
    pub(in crate::relay) refused_for: Duration,
}

/// A slot that another client has.
#[derive(Debug, Clone, Copy)]
pub(in crate::relay) struct HeldSlot {
    /// Another instance of ours.
    pub(in crate::relay) by_us: bool,
    /// `slot.max.retries` and `slot.retry.delay.ms`
    pub(in crate::relay) retry: Option<SlotRetry>,
    /// Number of this try.
    pub(in crate::relay) tries: u32,
    /// Time left of `outboxd.startup.timeout.ms`, at the start.
    pub(in crate::relay) time_left: Option<Duration>,
}

/// Returns the action after a failure; `jitter` is in 0..1.
pub(in crate::relay) fn after(error: &Error, situation: Situation, jitter: f64) -> Next {
    if doubtful(error).is_some() && situation.refused_for >= DOUBT_LASTS {
        return Next::Lasts;
    }
    match situation.step {
        Step::Opening => after_opening(error, situation, jitter),
        Step::Session => after_session(error, situation, jitter),
    }
}

fn after_opening(error: &Error, situation: Situation, jitter: f64) -> Next {
    let failover = situation.reached_primary && error.is_standby();
    if error.class() != Class::Transient && !failover {
        return Next::Stop;
    }
    if error.is_condemned() {
        return Next::NewProducer;
    }
    let pause = situation.backoff.pause(jitter);
    // A server that has begun with what it was asked for has answered: a cancelled snapshot or slot is made again.
    let is_awaited = !situation.reached_primary && !is_cancelled(error);
    let too_late = is_awaited && situation.time_left.is_some_and(|left| pause > left);
    if too_late || situation.is_exhausted() {
        return Next::Stop;
    }
    Next::Retry { pause, producer: Producer::after(error) }
}

fn after_session(error: &Error, situation: Situation, jitter: f64) -> Next {
    if error.is_condemned() {
        return if situation.stopping { Next::Stop } else { Next::NewProducer };
    }
    let unwritten = error.is_unwritten();
    // Everything else that passes at Kafka passes for a session too, such as a restart of the brokers while the state of transactions is read.
    let broken_producer = matches!(error, Error::Kafka(kafka::Error::Fatal(_)));
    let in_vain = error.is_garbled() && situation.fruitless > GARBLED_RETRIES_MAX
        || unwritten && situation.fruitless > UNWRITTEN_RETRIES_MAX;
    // A stop does not wait for what is on its way, and a new producer must.
    let no_time_to_renew = situation.stopping && error.wants_new_producer();
    if error.class() != Class::Transient
        || broken_producer
        || in_vain
        || situation.fenced_again
        || situation.is_exhausted()
        || no_time_to_renew
    {
        return Next::Stop;
    }
    Next::Retry { pause: situation.backoff.pause(jitter), producer: Producer::after(error) }
}

/// Returns the server's refusal, if only a repeated attempt shows whether it is definite.
pub(in crate::relay) fn doubtful(error: &Error) -> Option<&postgres::Error> {
    let Error::Postgres(error) = error else { return None };
    error.is_doubtful().then_some(error)
}

/// Returns whether another session has cancelled a statement of outboxd's.
fn is_cancelled(error: &Error) -> bool {
    matches!(error, Error::Postgres(error) if error.is_cancelled())
}

/// Returns the action when another client has the slot; `jitter` is in 0..1.
pub(in crate::relay) fn after_held_slot(held: HeldSlot, jitter: f64) -> Next {
    if held.by_us {
        return Next::StandBy { pause: STANDBY_INTERVAL.mul_f64(0.75 + jitter.clamp(0.0, 1.0) / 2.0) };
    }
    let (pause, over) = match held.retry {
        Some(SlotRetry { retries_max, delay }) => (delay, held.tries > retries_max),
        None => (STANDBY_INTERVAL, held.time_left.is_some_and(|left| STANDBY_INTERVAL > left)),
    };
    if over { Next::Stop } else { Next::Retry { pause, producer: Producer::Same } }
}

impl Situation {
    fn is_exhausted(&self) -> bool {
        self.retries_max.is_some_and(|most| self.backoff.attempts() >= most)
    }
}

impl Producer {
    fn after(error: &Error) -> Self {
        let renewed_by_session = error.is_of_transactions();
        if error.wants_new_producer() && !renewed_by_session { Self::New } else { Self::Same }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use rdkafka::error::RDKafkaErrorCode as Code;

    use super::*;
    use crate::ack::Ticket;
    use crate::connect::record::Fingerprint;
    use crate::kafka::{Cause, CreationFault, Rejection, TransactionFault};
    use crate::pgoutput::UnknownRelation;
    use crate::wal::{Lsn, Oid};
    use crate::wire::ServerError;

    const FIRST: Duration = Duration::from_millis(100);

    fn retry(producer: Producer) -> Next {
        Next::Retry { pause: FIRST, producer }
    }

    fn situation(step: Step) -> Situation {
        Situation {
            step,
            stopping: false,
            backoff: Backoff::default(),
            retries_max: None,
            fruitless: 0,
            fenced_again: false,
            reached_primary: false,
            time_left: None,
            refused_for: Duration::ZERO,
        }
    }

    /// Makes a refusal by PostgreSQL.
    fn refusal(code: &str) -> Error {
        let source = Box::new(ServerError { code: code.to_owned(), ..ServerError::default() });
        postgres::Error::Server { doing: "streaming".to_owned(), source }.into()
    }

    fn rejection() -> Box<Rejection> {
        Box::new(Rejection {
            ticket: Ticket(0),
            topic: "a".to_owned(),
            partition: None,
            event_id: None,
            fingerprint: Fingerprint::new(None, None, None),
            cause: Cause::Code(Code::MessageSizeTooLarge),
            reason: "refused".to_owned(),
        })
    }

    fn transaction(fault: TransactionFault) -> Error {
        let (id, reason) = ("id".to_owned(), "reason".to_owned());
        kafka::Error::Transaction { fault, doing: "committed", id, reason }.into()
    }

    fn topic_creation(fault: CreationFault) -> Error {
        let [topic, group, reason] = ["topic", "group", "reason"].map(str::to_owned);
        kafka::Error::TopicCreation { topic, group, reason, fault }.into()
    }

    fn unreachable() -> kafka::Error {
        kafka::Error::Unreachable { servers: "k".to_owned(), seconds: 1, reason: "down".to_owned() }
    }

    fn precondition() -> Error {
        postgres::Error::Precondition { problem: "p".to_owned(), fix: "c".to_owned() }.into()
    }

    fn broken() -> Error {
        postgres::Error::Broken { doing: "streaming", source: ErrorKind::ConnectionReset.into() }.into()
    }

    fn refused() -> Error {
        Error::Refused { commit_lsn: Lsn::ZERO, source: rejection() }
    }

    fn condemned() -> Error {
        Error::Condemned { commit_lsn: Lsn::ZERO, source: rejection() }
    }

    fn unwritten() -> Error {
        kafka::Error::Unwritten(rejection()).into()
    }

    fn garbled() -> Error {
        UnknownRelation(Oid(1)).into()
    }

    fn undrained() -> Error {
        Error::Undrained { records: 1, within: FIRST }
    }

    #[test]
    fn each_kind_of_error_has_its_row() {
        use Next::{NewProducer, Stop};
        use Producer::{New, Same};
        // The error; what follows it when it came while opening, and when it ended a session.
        let cases = [
            (broken(), retry(Same), retry(Same)),
            (garbled(), retry(Same), retry(Same)),
            (precondition(), Stop, Stop),
            (postgres::Error::Standby.into(), Stop, Stop),
            (refused(), Stop, Stop),
            // Another session has cancelled the walsender or a statement; a file is away; a standby that must be waited for is away.
            (refusal("57014"), retry(Same), retry(Same)),
            (refusal("58P01"), retry(Same), retry(Same)),
            (refusal("55000"), retry(Same), retry(Same)),
            (refusal("22023"), retry(Same), retry(Same)),
            (refusal("42501"), Stop, Stop),
            (condemned(), NewProducer, NewProducer),
            (unwritten(), retry(New), retry(New)),
            (transaction(TransactionFault::Fenced), retry(Same), retry(Same)),
            (transaction(TransactionFault::Unknown), retry(Same), retry(Same)),
            (kafka::Error::Fatal("gone".to_owned()).into(), retry(Same), Stop),
            (unreachable().into(), retry(Same), retry(Same)),
            (topic_creation(CreationFault::Passing), retry(Same), retry(Same)),
            (topic_creation(CreationFault::Settings), Stop, Stop),
            (Error::Heartbeat(rejection()), Stop, Stop),
            (undrained(), Stop, Stop),
        ];
        for (error, opening, session) in cases {
            assert_eq!(after(&error, situation(Step::Opening), 1.0), opening, "opening: {error}");
            assert_eq!(after(&error, situation(Step::Session), 1.0), session, "session: {error}");
        }
    }

    #[test]
    fn what_is_known_besides_decides_as_well() {
        use Next::Stop;
        use Producer::{New, Same};
        let (opening, session) = (situation(Step::Opening), situation(Step::Session));
        let tried = |times| (0..times).fold(Backoff::default(), |backoff, _| backoff.counted());
        let later = |times, producer| Next::Retry { pause: tried(times).pause(1.0), producer };
        let left = |ms| Some(Duration::from_millis(ms));
        let cases = [
            // A failover is on its way.
            (postgres::Error::Standby.into(), Situation { reached_primary: true, ..opening }, retry(Same)),
            (postgres::Error::Standby.into(), Situation { reached_primary: true, ..session }, Stop),
            // A refusal that has lasted.
            (refusal("58P01"), Situation { refused_for: DOUBT_LASTS, ..session }, Next::Lasts),
            (refusal("58P01"), Situation { refused_for: DOUBT_LASTS - FIRST, ..session }, retry(Same)),
            (refusal("57014"), Situation { refused_for: DOUBT_LASTS, ..session }, retry(Same)),
            // The patience at the start.
            (refusal("57014"), Situation { time_left: left(0), ..opening }, retry(Same)),
            (refusal("58P01"), Situation { time_left: left(0), ..opening }, Stop),
            (broken(), Situation { time_left: left(100), ..opening }, retry(Same)),
            (broken(), Situation { time_left: left(99), ..opening }, Stop),
            (broken(), Situation { time_left: left(0), reached_primary: true, ..opening }, retry(Same)),
            // `errors.max.retries`
            (broken(), Situation { retries_max: Some(2), backoff: tried(1), ..opening }, later(1, Same)),
            (broken(), Situation { retries_max: Some(2), backoff: tried(2), ..opening }, Stop),
            (broken(), Situation { retries_max: Some(2), backoff: tried(1), ..session }, later(1, Same)),
            (broken(), Situation { retries_max: Some(2), backoff: tried(2), ..session }, Stop),
            (broken(), Situation { retries_max: Some(0), ..session }, Stop),
            (condemned(), Situation { retries_max: Some(0), ..session }, Next::NewProducer),
            // What is tried again in vain.
            (garbled(), Situation { fruitless: 3, ..session }, retry(Same)),
            (garbled(), Situation { fruitless: 4, ..session }, Stop),
            (garbled(), Situation { fruitless: 4, ..opening }, retry(Same)),
            (unwritten(), Situation { fruitless: 5, ..session }, retry(New)),
            (unwritten(), Situation { fruitless: 6, ..session }, Stop),
            (broken(), Situation { fruitless: 100, ..session }, retry(Same)),
            (transaction(TransactionFault::Fenced), Situation { fenced_again: true, ..session }, Stop),
            // A stop.
            (broken(), Situation { stopping: true, ..session }, retry(Same)),
            (condemned(), Situation { stopping: true, ..session }, Stop),
            (unwritten(), Situation { stopping: true, ..session }, Stop),
            (transaction(TransactionFault::Unknown), Situation { stopping: true, ..session }, Stop),
        ];
        for (error, situation, expected) in cases {
            assert_eq!(after(&error, situation, 1.0), expected, "{error}: {situation:?}");
        }
    }

    #[test]
    fn a_held_slot_is_awaited_by_whom_it_is_held() {
        let foreign = HeldSlot { by_us: false, retry: None, tries: 1, time_left: None };
        let asked = Some(SlotRetry { retries_max: 2, delay: FIRST });
        let left = |ms| Some(Duration::from_millis(ms));
        let again = |pause| Next::Retry { pause, producer: Producer::Same };
        let cases = [
            (HeldSlot { by_us: true, ..foreign }, Next::StandBy { pause: STANDBY_INTERVAL }),
            (
                HeldSlot { by_us: true, time_left: left(0), ..foreign },
                Next::StandBy { pause: STANDBY_INTERVAL },
            ),
            (foreign, again(STANDBY_INTERVAL)),
            (HeldSlot { time_left: left(1000), ..foreign }, again(STANDBY_INTERVAL)),
            (HeldSlot { time_left: left(999), ..foreign }, Next::Stop),
            (HeldSlot { retry: asked, tries: 2, ..foreign }, again(FIRST)),
            (HeldSlot { retry: asked, tries: 3, ..foreign }, Next::Stop),
            (HeldSlot { retry: asked, time_left: left(0), ..foreign }, again(FIRST)),
        ];
        for (held, expected) in cases {
            assert_eq!(after_held_slot(held, 0.5), expected, "{held:?}");
        }
    }
}
