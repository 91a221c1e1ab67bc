//! Waits until the brokers have a topic, or creates it.

use std::time::{Duration, Instant};

use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::error::{Class, Diagnose as _};
use crate::kafka::{
    self, CreationFault, Made, OpenTransactions, Rejection, TopicAnswer, TopicProbe, make_topic,
};
use crate::relay::error::Error;
use crate::relay::parts::RelayParts;
use crate::relay::time::backoff::Backoff;
use crate::telemetry::{Component, Status};

/// Timeout of one request for a topic.
const QUESTION: Duration = Duration::from_millis(500);

/// Pause before a topic that was absent is queried again.
const INTERVAL: Duration = Duration::from_millis(20);

/// Time for which something may stay undecided before that is logged: transactions take moments.
const UNDECIDED_GRACE: Duration = Duration::from_secs(5);

/// Time that creating a topic may take. Then its record is handed over, and librdkafka reports what is wrong.
const CREATION_PATIENCE: Duration = Duration::from_secs(5);

/// Waits until a topic exists. One that exists at the first request is used as it is; of one that is just
/// being created each partition's leader must respond: librdkafka loses records for a partition that has
/// none. Waits for brokers that are down. `is_new` means that it was created just now. Returns the number of
/// partitions, 0 when it is not known.
pub(super) async fn settled(probe: &TopicProbe, is_new: bool) -> usize {
    let mut absent_since = is_new.then(Instant::now);
    let partitions = loop {
        match ask(probe.clone(), absent_since.is_some()).await {
            TopicAnswer::There { partitions } => break partitions,
            TopicAnswer::Silent => {}
            TopicAnswer::Absent => {
                let since = *absent_since.get_or_insert_with(Instant::now);
                if since.elapsed() >= CREATION_PATIENCE {
                    return 0;
                }
            }
        }
        sleep(INTERVAL).await;
    };
    if absent_since.is_some() && !is_new {
        tracing::info!(topic = probe.topic(), "created a topic");
    }
    partitions
}

/// Creates a topic that does not exist, with the settings of `topic.creation`. Returns true if it was
/// created. Waits for brokers that are down.
pub(super) async fn made(parts: &RelayParts, status: &Status, topic: &str) -> Result<bool, Error> {
    let mut backoff = Backoff::default();
    loop {
        match make_topic(&parts.kafka, topic).await {
            Ok(made) => return Ok(made == Made::Now),
            Err(error) if error.class() == Class::Transient => {
                status.down_by(Component::Kafka, &error, Instant::now());
                sleep(backoff.next(fastrand::f64())).await;
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns why a topic that does not come is not made, if another topic is the reason.
pub(super) async fn collision(probe: &TopicProbe) -> Option<String> {
    let probe = probe.clone();
    spawn_blocking(move || probe.collision(QUESTION)).await.ok().flatten()
}

/// Lets the records for a topic that brokers refuse to create become dead letters, if there is a topic for
/// them.
///
/// # Errors
/// The error itself, if it is about the configuration, or there is no dead-letter topic, or it is the one
/// that is refused.
pub(super) fn refused(parts: &RelayParts, topic: &str, error: Error) -> Result<(), Error> {
    let reason = match &error {
        Error::Kafka(kafka::Error::TopicCreation { fault: CreationFault::Topic, reason, .. }) => {
            reason.clone()
        }
        Error::Kafka(kafka::Error::Rejected(rejection)) => rejection.reason.clone(),
        _ => return Err(error),
    };
    let rejection = Rejection::of_topic(topic, reason);
    match &parts.dead_letters {
        Some(letters) if letters.refuse_topic(&rejection, Instant::now()) => Ok(()),
        _ => Err(error),
    }
}

/// Waits, with transactions, until everything in the topic is decided that was there before the first of
/// them.
pub(super) async fn decided(mut open_transactions: OpenTransactions) {
    let (began, stop) = (Instant::now(), CancellationToken::new());
    let _guard = stop.clone().drop_guard();
    loop {
        let stop = stop.clone();
        let waiting = spawn_blocking(move || {
            let outcome = open_transactions.wait(QUESTION, &stop);
            (open_transactions, outcome)
        });
        // Only a panic or the runtime's end keeps it from coming back.
        let Ok((back, outcome)) = waiting.await else { return };
        open_transactions = back;
        match outcome {
            Ok(()) => return,
            Err(error) if began.elapsed() >= UNDECIDED_GRACE => open_transactions.report(&error),
            Err(_) => {}
        }
        sleep(INTERVAL).await;
    }
}

async fn ask(probe: TopicProbe, leaders: bool) -> TopicAnswer {
    let asking =
        spawn_blocking(move || if leaders { probe.ask_leaders(QUESTION) } else { probe.ask(QUESTION) });
    asking.await.unwrap_or(TopicAnswer::Silent)
}
