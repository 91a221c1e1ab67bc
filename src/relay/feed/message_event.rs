//! Logical messages that become change events.

use super::{Again, Feed, Outcome};
use crate::change::{ChangeContext, ChangeEvents, MESSAGES, SkippedHalves, Snapshot};
use crate::connect::converter::{ConvertError, Destination};
use crate::kafka::Transport;
use crate::outbox::{MessageError, RouteError};
use crate::pgoutput::LogicalMessage;
use crate::relay::clock::Now;
use crate::relay::error::Error;
use crate::relay::needs::Need;
use crate::wal::{Lsn, Xid};

impl<T: Transport> Feed<'_, T> {
    /// Hands over the record of a message at `lsn`.
    pub(super) fn message_event(
        &mut self,
        changes: &ChangeEvents,
        (lsn, message): (Lsn, &LogicalMessage<'_>),
        Again { position, refused }: Again,
        now: Now,
    ) -> Result<Outcome, Error> {
        let context = self.message_context(lsn, message, now);
        let (scratch, schemas) = self.encoder.parts();
        let mut into = Destination { scratch, topic: "", schemas };
        let made = match refused {
            Some(error) => Err(error),
            None => match changes.message_record(message, &context, &mut into) {
                Ok(mut records) => {
                    if context.before.is_some() {
                        self.tally.add(MESSAGES, 1);
                    }
                    if records.is_empty() {
                        self.message_not_sent("transforms");
                        return Ok(Outcome::None);
                    }
                    if self.recognises {
                        records.tell_digest(ChangeEvents::message_digest(message, &context));
                    }
                    let (dispatch, flight) = (&mut self.dispatch, &mut self.flight);
                    Ok(records.lend(self.encoder.scratch(), |records| {
                        dispatch.send(flight, records, position, now)
                    })?)
                }
                Err(RouteError::Convert { source: ConvertError::Unregistered(registration), .. }) => {
                    self.again = Some(Again { position, refused: None });
                    return Ok(Outcome::TakeAgain(Need::Schema(registration)));
                }
                Err(source) => {
                    let (prefix, source) = (message.prefix.to_owned(), MessageError::Event(Box::new(source)));
                    Err(Error::Message { prefix, position, source: Box::new(source) })
                }
            },
        };
        match made {
            Ok(need) => Ok(need.map_or(Outcome::None, Outcome::Await)),
            Err(error) => {
                let remains = self.dead_letters.map(|_| changes.raw_message(message));
                self.give_up(error, remains, position, now)
            }
        }
    }

    /// A message outside a transaction is its own commit.
    fn message_context(&self, lsn: Lsn, message: &LogicalMessage<'_>, now: Now) -> ChangeContext {
        let open = self.open.filter(|open| open.xid != Xid(0));
        let tells = self.transactions.is_some() && open.is_some();
        ChangeContext {
            before: tells.then(|| self.tally.before(MESSAGES)),
            now_us: now.unix_us,
            commit_time: open.map_or_else(|| now.postgres(), |open| open.commit_time),
            xid: open.map(|open| open.xid),
            lsn,
            last_commit: if message.transactional { self.last_commit } else { Some(lsn) },
            snapshot: Snapshot::False,
            skipped: SkippedHalves::default(),
            tolerates: false,
        }
    }
}
