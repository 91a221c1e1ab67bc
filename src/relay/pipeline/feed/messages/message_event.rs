//! Logical messages that become change events.

use crate::change::{ChangeContext, ChangeEvents, MESSAGES, SkippedHalves, Snapshot};
use crate::connect::converter::Destination;
use crate::kafka::Transport;
use crate::pgoutput::LogicalMessage;
use crate::relay::error::Error;
use crate::relay::pipeline::feed::in_hand::StreamEvent;
use crate::relay::pipeline::feed::outgoing::Unmade;
use crate::relay::pipeline::feed::{Feed, Outcome};
use crate::relay::time::clock::Now;
use crate::wal::Lsn;

impl<T: Transport> Feed<'_, T> {
    /// Hands over the record of a message at `lsn`.
    pub(super) fn message_event(
        &mut self,
        changes: &ChangeEvents,
        StreamEvent { lsn, position, .. }: StreamEvent,
        message: &LogicalMessage<'_>,
        now: Now,
    ) -> Result<Outcome, Error> {
        let context = self.message_context(lsn, message, now);
        let (scratch, schemas) = self.encoder.parts();
        let mut into = Destination { scratch, topic: "", schemas };
        let unmade = match changes.message_record(message, &context, &mut into) {
            Ok(mut records) => {
                if context.before.is_some() {
                    self.place.tally.add(MESSAGES, 1);
                }
                if records.is_empty() {
                    self.message_not_sent("transforms");
                    return Ok(Outcome::None);
                }
                if self.recognises {
                    records.report_digest(ChangeEvents::message_digest(message, &context));
                }
                return records.lend(self.encoder.scratch(), |records| self.out.send(records, position, now));
            }
            Err(source) => {
                let unmade = Unmade::of_message_event(source, message.prefix, position);
                // As in Debezium, which counts what its transforms then refuse.
                if let (Unmade::Error(_), true) = (&unmade, context.before.is_some()) {
                    self.place.tally.add(MESSAGES, 1);
                }
                unmade.or_refused(&mut self.answers)
            }
        };
        let remains = || Some(changes.raw_message(message));
        self.out.give_up(unmade, remains, position, now)
    }

    /// Makes the context of a message event. A message outside a transaction is its own commit, at the time
    /// of the one before it, as in Debezium.
    fn message_context(&self, lsn: Lsn, message: &LogicalMessage<'_>, now: Now) -> ChangeContext {
        let open = self.place.source_transaction();
        let tells = self.transactions.is_some() && open.is_some();
        ChangeContext {
            before: tells.then(|| self.place.tally.before(MESSAGES)),
            now_us: now.unix_us,
            commit_time: open
                .map(|open| open.commit_time)
                .or(self.place.last_commit_time)
                .unwrap_or_else(|| now.postgres()),
            xid: open.map(|open| open.xid),
            lsn,
            last_commit: if message.transactional { self.place.last_commit } else { Some(lsn) },
            origin: self.place.origin.clone(),
            xmin: self.place.slot_xmin(),
            snapshot: Snapshot::False,
            skipped: SkippedHalves::default(),
            tolerates: false,
        }
    }
}
