use std::time::SystemTime;

use super::{Feed, Wish, unix_ms, unix_us};
use crate::connect::converter::ConvertError;
use crate::kafka::Outlet;
use crate::outbox::{MessageError, RouteContext};
use crate::pgoutput::{Begin, Commit, LogicalMessage};
use crate::relay::Error;
use crate::relay::needs::Need;
use crate::telemetry::Change;
use crate::transaction::EventPosition;
use crate::wal::{Lsn, PgTimestamp, Xid};

impl<O: Outlet> Feed<'_, O> {
    /// A message outside a transaction is one of its own: it came at once, and is there even if the transaction that
    /// wrote it rolls back.
    pub(super) fn logical_message(&mut self, lsn: Lsn, message: &LogicalMessage<'_>) -> Result<Wish, Error> {
        let again = self.held.take();
        if again.is_none() {
            self.metrics.changes(Change::Message, 1);
            if !message.transactional {
                self.begin_lone(message.lsn)?;
            }
        }
        let position = again.map_or_else(|| self.assembler.next_position(), Ok)?;
        if again.is_none() && message.transactional && self.was_sent_before(lsn) {
            self.metrics.skipped("acknowledged", 1);
            return Ok(Wish::None);
        }
        match self.event(message, position)? {
            Wish::None => self.end_lone(),
            wish => Ok(wish),
        }
    }

    fn begin_lone(&mut self, end_lsn: Lsn) -> Result<(), Error> {
        // The last byte of the message's own record; where it ends, the next commit may begin.
        let commit_lsn = Lsn::new(end_lsn.get().saturating_sub(1));
        let commit_time = PgTimestamp::from_unix_us(unix_us());
        // It has no commit time by which a stored offset could tell that it was sent: it is rather sent twice.
        self.open(Begin { final_lsn: commit_lsn, commit_time, xid: Xid(0) })?;
        self.lone = Some(Commit { commit_lsn, end_lsn, commit_time });
        Ok(())
    }

    pub(super) fn end_lone(&mut self) -> Result<Wish, Error> {
        match self.lone.take() {
            Some(commit) => self.commit(&commit).map(Wish::Committed),
            None => Ok(Wish::None),
        }
    }

    fn event(&mut self, message: &LogicalMessage<'_>, position: EventPosition) -> Result<Wish, Error> {
        let Some(messages) = self.messages.filter(|messages| messages.takes(message.prefix)) else {
            self.metrics.skipped("message.prefix", 1);
            return Ok(Wish::None);
        };
        if self.passing || self.flight.has(position) {
            self.metrics.skipped(if self.passing { "acknowledged" } else { "committed" }, 1);
            return Ok(Wish::None);
        }
        let now = SystemTime::now();
        let context = RouteContext { now_ms: unix_ms(now) };
        let routed = match self.refused.take() {
            Some(error) => Err(error),
            None => match messages.route(message.content, context, &mut self.encoder) {
                Ok(routed) => Ok(self.flight.dispatch(&routed.as_record(), position, now)?),
                Err(MessageError::Convert { source: ConvertError::Unregistered(registration), .. }) => {
                    Ok(Some(Need::Schema(registration)))
                }
                Err(source) => {
                    let prefix = message.prefix.to_owned();
                    Err(Error::Message { prefix, position, source: Box::new(source) })
                }
            },
        };
        let need = match routed {
            Ok(need) => need,
            Err(error) => {
                let remains = self.dead_letters.map(|_| messages.salvage(message.content, &mut self.encoder));
                return self.give_up(error, remains, position, now);
            }
        };
        Ok(self.hold(position, need))
    }
}
