//! Taking of partitions in PostgreSQL.

use std::sync::Arc;

use super::{Ended, Loop};
use crate::consumer::handler::Handler;
use crate::consumer::offsets::Beginning;
use crate::consumer::work::Context;
use crate::core::{Input, Tenure};
use crate::kafka::InboxContext;
use crate::postgres::Taken;

/// Maximum number of partitions that are taken at a time. Each needs a connection, besides those of the workers.
const TAKING_MAX: usize = 4;

impl<H: Handler, C: InboxContext> Loop<H, C> {
    pub(super) fn take(&mut self, tenure: Tenure) {
        self.tenancies.retain(|held, _| held.partition != tenure.partition);
        self.to_take.push_back(tenure);
        self.take_next();
    }

    fn take_next(&mut self) {
        if self.taking >= TAKING_MAX {
            return;
        }
        let Some(tenure) = self.to_take.pop_front() else { return };
        self.taking += 1;
        let (context, connection) = (Arc::clone(&self.context), self.idle.pop());
        let (partitions, group) = (self.kafka.partitions(), self.kafka.group().map(str::to_owned));
        let assigned = self.assigned.get(&tenure.partition);
        // Unknown until the partition has been taken once since it was assigned.
        let known = assigned.and_then(|assigned| assigned.incarnation.clone());
        let last_stored = assigned.and_then(|assigned| assigned.stored);
        let is_recreated = assigned.is_some_and(|assigned| assigned.is_recreated);
        let began_at = self.began_at(&tenure.partition);
        self.tasks.spawn(async move {
            let id = &tenure.partition;
            let (taken, connection) =
                context.take(connection, id, partitions.clone(), group.as_deref()).await;
            let stored = taken.as_ref().and_then(|taken| taken.next_offset);
            let is_first = known.is_none();
            let is_elsewhere =
                taken.as_ref().zip(known).is_some_and(|(taken, known)| taken.incarnation() != &*known);
            // Rows of a backup can be put back into the tables of a running server.
            let is_behind = last_stored.is_some_and(|last| stored.is_none_or(|stored| stored < last));
            let beginning = if taken.is_none() {
                Ok(Beginning::default())
            } else if is_recreated {
                Ok(Beginning { rewind_to: Some(0), began_at: Some(0) })
            } else if is_elsewhere || is_behind {
                let rewind_to = stored.or(began_at);
                Context::<H>::warn_moved(id, rewind_to);
                Ok(Beginning { rewind_to, began_at })
            } else if is_first {
                context.beginning(id, stored, partitions).await
            } else {
                Ok(Beginning::default())
            };
            match beginning {
                Ok(beginning) => Ended::Take(tenure, taken.map(Box::new), beginning, connection),
                Err(error) => {
                    tracing::warn!(%error, "cannot read the committed offset; retrying");
                    Ended::Take(tenure, None, Beginning::default(), connection)
                }
            }
        });
    }

    /// Processes the result of taking a partition: `taken` is `None` if that failed.
    pub(super) fn taken(&mut self, tenure: Tenure, taken: Option<Box<Taken>>, beginning: Beginning) -> Input {
        let Beginning { rewind_to, began_at } = beginning;
        self.taking = self.taking.saturating_sub(1);
        self.take_next();
        // What was revoked meanwhile must leave nothing behind for the next assignment.
        let taken = taken.filter(|_| self.core.is_current(&tenure));
        let assigned = self.assigned.get_mut(&tenure.partition);
        let Some((taken, assigned)) = taken.zip(assigned) else { return Input::NotTaken { tenure } };
        if let Some(offset) = rewind_to {
            if !self.kafka.seek(&tenure.partition, offset) {
                return Input::NotTaken { tenure };
            }
            assigned.rewound();
            self.kafka.resume(&tenure.partition);
        }
        assigned.began = began_at.or(assigned.began);
        assigned.incarnation = Some(Arc::from(taken.incarnation()));
        if self.context.has_positions() {
            assigned.positions.get_or_insert_default().taken(taken.greatest);
        }
        self.tenancies.insert(tenure.clone(), taken.tenancy);
        let is_rewound = rewind_to.is_some();
        Input::Taken { tenure, suspects: taken.suspects, parked: taken.parked, is_rewound }
    }
}
