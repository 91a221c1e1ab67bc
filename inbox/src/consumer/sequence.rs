//! Deduplication by sequence numbers.

use std::sync::Arc;

use super::delivery::Delivery;
use super::handler::Handler;
use super::work::{Context, outcome, undo};
use crate::core::sequence::plan;
use crate::core::{FailureKind, Job, Outcome};
use crate::event::{Event, SequenceSource};
use crate::postgres::{self, Connection, Numbered, Tenancy};

impl<H: Handler> Context<H> {
    /// Handles the events of a job whose number is next, and parks those that arrive too early. An error means that the
    /// connection cannot be used again.
    pub(super) async fn by_sequence(
        &self,
        source: &SequenceSource,
        connection: &Connection,
        tenancy: &Tenancy,
        job: &Job,
        deliveries: Vec<Delivery>,
    ) -> Result<Outcome, postgres::Error> {
        let number = |event: &Arc<Event>| source.number(event).filter(|_| event.key.is_some());
        let Some(numbers) = job.events.iter().map(number).collect::<Option<Vec<i64>>>() else {
            let error = "the event has no number, or no key".to_owned();
            return Ok(Outcome::Failed { kind: FailureKind::Poison, error });
        };
        let mark = tenancy.mark(job);
        let keys = job.events.iter().map(|event| event.key.as_deref().unwrap_or_default());
        let keyed: Vec<(&[u8], i64)> = keys.zip(numbers.iter().copied()).collect();
        let known = connection.enter_numbered(tenancy, mark, &keyed).await?;
        let Some(known) = known else { return Ok(Outcome::Fenced) };
        let plan = plan(&keyed, &known, self.first_number);
        if let Some(index) = plan.before_first.first() {
            connection.roll_back(tenancy, mark).await?;
            let number = numbers.get(*index).copied().unwrap_or_default();
            let error = format!(
                "its number {number} is before the first one that came of its key: it was never handled"
            );
            return Ok(Outcome::Failed { kind: FailureKind::Poison, error });
        }
        let deliveries = plan.handle.iter().filter_map(|index| deliveries.get(*index).cloned()).collect();
        if let Err(failure) = self.call(connection, deliveries).await? {
            return undo(connection, tenancy, mark, &failure).await;
        }
        let events: Vec<(&Arc<Event>, i64)> = job.events.iter().zip(numbers).collect();
        let written = async {
            let numbered = connection.write_numbers(tenancy, &plan, &events, self.parked_max).await;
            let numbered = match numbered {
                Ok(numbered) => numbered,
                Err(error) => return Err(connection.cause_of(error).await),
            };
            if let Some(error) = refused(numbered) {
                connection.roll_back(tenancy, mark).await?;
                return Ok(Outcome::Failed { kind: FailureKind::Retry, error: error.to_owned() });
            }
            let mark = if plan.gaps.is_empty() { mark } else { mark.staying() };
            self.commit(connection, tenancy, job, mark).await?;
            self.report_ended(job, plan.handle.len(), plan.gaps.len());
            Ok(match numbered {
                Numbered::Closed => Outcome::Closed,
                _ if plan.handle.is_empty() => Outcome::Repeated,
                _ => Outcome::Done,
            })
        };
        outcome(connection, tenancy, mark, written.await).await
    }
}

fn refused(numbered: Numbered) -> Option<&'static str> {
    match numbered {
        Numbered::Written | Numbered::Closed => None,
        Numbered::Raced => {
            Some("another consumer has just handled an event of this key, which is in two partitions")
        }
        Numbered::Full => Some("events of this key are missing, and the table of parked events is full"),
    }
}
