//! Deduplication by positions in the WAL.

use std::sync::Arc;

use super::delivery::Delivery;
use super::failure::chain;
use super::handler::Handler;
use super::work::Context;
use crate::core::{FailureKind, Job, Order, Outcome, PartitionId};
use crate::event::{Event, Position};
use crate::kafka::{InboxContext, Partitions};
use crate::postgres::{self, Change, Comparable, Connection, Placed, Tenancy};

/// Reason why the positions of a job cannot identify repeats.
enum Unsound {
    /// Permanent reason.
    Because(&'static str),
    /// Several databases in one batch: its events have to be handled one by one.
    Mixed,
    /// The topic does not use positions any more: the partition has to be taken again.
    Fenced,
}

impl<H: Handler> Context<H> {
    /// Returns the number of partitions of the topic; `None` if Kafka does not answer.
    pub(super) async fn count<C: InboxContext>(id: &PartitionId, partitions: Partitions<C>) -> Option<i32> {
        let topic = Arc::clone(&id.topic);
        match tokio::task::spawn_blocking(move || partitions.count(&topic)).await.ok()? {
            Ok(count) => Some(count),
            Err(error) => {
                tracing::warn!(%error, "a partition is not taken yet");
                None
            }
        }
    }

    /// Handles the events of a job that are new. `fresh` marks those that are certainly new. An error means that the
    /// connection cannot be used again.
    pub(super) async fn by_position(
        &self,
        connection: &Connection,
        tenancy: &Tenancy,
        job: &Job,
        comparable: &Comparable,
        fresh: &[bool],
        deliveries: Vec<Delivery>,
    ) -> Result<Outcome, postgres::Error> {
        let positions = match self.positions(connection, comparable, job).await? {
            Ok(positions) => positions,
            Err(Unsound::Mixed) => {
                let error = "the events of this batch come from several databases".to_owned();
                return Ok(Outcome::Failed { kind: FailureKind::Retry, error });
            }
            Err(Unsound::Because(why)) => return Ok(self.go_by_ids(connection, job, why).await),
            Err(Unsound::Fenced) => return Ok(Outcome::Fenced),
        };
        let topic = &job.tenure.partition.topic;
        if deliveries.iter().any(|delivery| delivery.source() != &**topic) {
            let why = "ids are scoped by something else than the topic";
            return Ok(self.go_by_ids(connection, job, why).await);
        }
        let mark = tenancy.mark(job);
        let entered = match placed(&positions, fresh, &deliveries) {
            Some(placed) => connection.enter_by_position(tenancy, mark, topic, &placed).await?,
            None => return Ok(Outcome::Repeated),
        };
        self.run_new(connection, tenancy, job, deliveries, entered, mark).await
    }

    /// Returns the positions of a job's events if they can be compared with all others of the topic.
    async fn positions(
        &self,
        connection: &Connection,
        comparable: &Comparable,
        job: &Job,
    ) -> Result<Result<Vec<Position>, Unsound>, postgres::Error> {
        if let Some(why) = job.events.iter().find_map(|event| self.misplaced(event, comparable.partitions)) {
            return Ok(Err(Unsound::Because(why)));
        }
        let Some(positions) = job.events.iter().map(|event| Position::of(event)).collect::<Option<Vec<_>>>()
        else {
            return Ok(Err(Unsound::Because("an event has no header outboxd.position")));
        };
        let Some(source) = positions.first().map(|position| &position.source) else {
            return Ok(Ok(positions));
        };
        if positions.iter().any(|position| position.source != *source) {
            return Ok(Err(Unsound::Mixed));
        }
        let known = match comparable.source.get() {
            Some(known) => known,
            None => {
                let topic = &job.tenure.partition.topic;
                let Some(known) = connection.source(&self.consumer, topic, source).await? else {
                    return Ok(Err(Unsound::Fenced));
                };
                comparable.source.get_or_init(|| known)
            }
        };
        if known != source {
            return Ok(Err(Unsound::Because("events come from several databases")));
        }
        Ok(Ok(positions))
    }

    /// Returns the reason if a repeat of the event could arrive in another lane, which does not see this one while it is
    /// being handled.
    fn misplaced(&self, event: &Event, partitions: i32) -> Option<&'static str> {
        if event.key.is_none() && (self.order != Order::PerPartition || partitions != 1) {
            return Some("an event has no key");
        }
        let misplaced = "an event is not in the partition of its key: partitions were added, or the \
                         producer's partitioner is not murmur2";
        (!event.is_in_place(partitions)).then_some(misplaced)
    }

    /// Changes the topic to ids. The partition is taken again afterwards.
    async fn go_by_ids(&self, connection: &Connection, job: &Job, why: &'static str) -> Outcome {
        let topic = &job.tenure.partition.topic;
        match connection.change_way(&self.consumer, topic, Change::ToIds(why)).await {
            Ok(()) => Outcome::Fenced,
            Err(error) => {
                tracing::warn!(error = chain(&error), "ids are not asked yet");
                Outcome::Unavailable
            }
        }
    }
}

/// Divides the events into certainly new and doubtful ones, with the range of their positions. Returns `None` without
/// events.
fn placed<'a>(positions: &'a [Position], fresh: &[bool], deliveries: &'a [Delivery]) -> Option<Placed<'a>> {
    let all = || positions.iter().zip(fresh.iter().copied().chain(std::iter::repeat(false))).zip(deliveries);
    let ids = |wanted: bool| {
        let mut ids: Vec<&str> =
            all().filter(|((_, fresh), _)| *fresh == wanted).map(|(_, delivery)| delivery.id()).collect();
        ids.sort_unstable();
        ids
    };
    let places = positions.iter().map(|position| position.place.as_str());
    let doubtful =
        || all().filter(|((_, fresh), _)| !fresh).map(|((position, _), _)| position.place.as_str());
    Some(Placed {
        source: &positions.first()?.source,
        places: (places.clone().min()?, places.max()?),
        fresh: ids(true),
        doubtful: ids(false),
        doubtful_places: (doubtful().min().unwrap_or_default(), doubtful().max().unwrap_or_default()),
    })
}
