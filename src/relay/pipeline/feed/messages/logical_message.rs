//! `pg_logical_emit_message`: events that are in the WAL but in no table.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use crate::change::MESSAGES as MESSAGE_EVENTS;
use crate::kafka::Transport;
use crate::outbox::{MessageOutbox, RouteContext};
use crate::pgoutput::{Begin, Commit, LogicalMessage};
use crate::relay::error::Error;
use crate::relay::pipeline::feed::in_hand::StreamEvent;
use crate::relay::pipeline::feed::outgoing::Unmade;
use crate::relay::pipeline::feed::{Feed, Outcome};
use crate::relay::time::clock::Now;
use crate::telemetry::Change;
use crate::transaction::{EventPosition, Identity};
use crate::wal::{Lsn, Oid, Xid};

/// Name under which messages are counted: they have no table.
const MESSAGES: &str = "pg_logical_emit_message";
const NO_TABLE: Oid = Oid(0);

impl<T: Transport> Feed<'_, T> {
    /// Handles a logical message. One outside a transaction is a transaction of its own: it arrived at once,
    /// and exists even if the transaction that wrote it rolls back.
    pub(in crate::relay::pipeline::feed) fn logical_message(
        &mut self,
        lsn: Lsn,
        message: &LogicalMessage<'_>,
        now: Now,
    ) -> Result<Outcome, Error> {
        if !message.transactional && self.place.ends_with_event.is_none() {
            self.begin_lone(message, now)?;
        }
        let event = self.stream_event(lsn)?;
        let outcome = self.event(event, message, now)?;
        self.end_event(lsn, &outcome);
        if !outcome.is_lack() {
            self.out.metrics.changes(Change::Message, 1);
        }
        match outcome {
            Outcome::None => self.end_with_event(),
            outcome => Ok(outcome),
        }
    }

    pub(super) fn message_not_sent(&mut self, reason: &'static str) {
        self.tables.passed.skip(self.out.metrics, NO_TABLE, MESSAGES, reason);
    }

    fn begin_lone(&mut self, message: &LogicalMessage<'_>, now: Now) -> Result<(), Error> {
        let end_lsn = message.lsn;
        // The last byte of the message's own record; where it ends, the next commit may begin.
        let commit_lsn = Lsn::new(end_lsn.get().saturating_sub(1));
        let commit_time = now.postgres();
        // It has no commit time by which a stored offset could prove that it was sent: sending it twice is
        // preferred.
        let begin = Begin { final_lsn: commit_lsn, commit_time, xid: Xid(0) };
        self.open(begin, Identity::Message(digest(message)))?;
        self.place.ends_with_event = Some(Commit { commit_lsn, end_lsn, commit_time });
        Ok(())
    }

    /// Commits the open transaction, if it ends with the event that is handed over now.
    pub(in crate::relay::pipeline::feed) fn end_with_event(&mut self) -> Result<Outcome, Error> {
        match self.place.ends_with_event.take() {
            Some(commit) => self.commit(&commit).map(Outcome::Committed),
            None => Ok(Outcome::None),
        }
    }

    fn event(
        &mut self,
        event: StreamEvent,
        message: &LogicalMessage<'_>,
        now: Now,
    ) -> Result<Outcome, Error> {
        if message.transactional && event.sent_before {
            self.message_not_sent("acknowledged");
            return Ok(Outcome::None);
        }
        let changes = self.changes.filter(|changes| changes.takes_message(message.prefix));
        let messages = self.messages.filter(|messages| messages.takes(message.prefix));
        if changes.is_none() && messages.is_none() {
            self.message_not_sent("message.prefix");
            return Ok(Outcome::None);
        }
        let in_kafka = self.out.flight.has(event.position.end_of_event())?;
        if self.earlier.passing || in_kafka {
            // What Kafka has of a transaction that continues counts for the events behind it.
            if in_kafka && message.transactional && self.transactions.is_some() {
                self.place.tally.add(MESSAGE_EVENTS, 1);
            }
            self.message_not_sent(if self.earlier.passing { "acknowledged" } else { "committed" });
            return Ok(Outcome::None);
        }
        match (changes, messages) {
            (Some(changes), _) => self.message_event(changes, event, message, now),
            (None, Some(messages)) => self.outbox_event(messages, message, event.position, now),
            (None, None) => Ok(Outcome::None),
        }
    }

    fn outbox_event(
        &mut self,
        messages: &MessageOutbox,
        message: &LogicalMessage<'_>,
        position: EventPosition,
        now: Now,
    ) -> Result<Outcome, Error> {
        let context = RouteContext { now_ms: now.unix_ms() };
        let unmade = match messages.route(message.content, context, &mut self.encoder) {
            Ok(routed) => {
                let records = (self.records_of)(routed.as_record());
                return self.out.send(&records, position, now);
            }
            Err(source) => Unmade::of_message(source, message.prefix, position).or_refused(&mut self.answers),
        };
        let remains = || Some(messages.raw_record(message.content, &mut self.encoder));
        self.out.give_up(unmade, remains, position, now)
    }
}

/// Returns the digest by which a message is recognised when it is read again.
fn digest(message: &LogicalMessage<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (message.prefix, message.content).hash(&mut hasher);
    hasher.finish()
}
