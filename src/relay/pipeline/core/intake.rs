//! Effect of a message on the feed and on the feedback to the server.

use std::time::Duration;

use super::Source;
use crate::kafka::Transport;
use crate::pgoutput;
use crate::postgres::ReplicationStream;
use crate::relay::delivery::dispatch::UnsentRecords;
use crate::relay::delivery::needs::Need;
use crate::relay::error::Error;
use crate::relay::pipeline::feed::{Feed, Outcome};
use crate::relay::time::clock::Now;
use crate::replication::{Feedback, ReplicationMessage, XLogData};
use crate::wal::Lsn;

/// A transaction that the server sends so long after its commit was not waited for: there is a backlog. Both moments are of
/// the server's clock.
const LATE: Duration = Duration::from_millis(100);

/// Result of a message.
pub(in crate::relay) enum Taken {
    /// A keepalive.
    Keepalive,
    /// The feed has it. It stands at `lsn`.
    Message { lsn: Lsn, outcome: Outcome },
    /// The message lacks something, and this is a copy of it.
    Lacking { lsn: Lsn, need: Need, message: XLogMessage },
}

/// A message that is given to the feed again.
#[derive(Debug)]
pub(in crate::relay) struct XLogMessage {
    pub(super) data: Vec<u8>,
    /// Its own place: what was received before may stand behind it.
    pub(super) lsn: Lsn,
}

/// The stream of a started slot. What is in its buffer is taken from there.
impl Source for ReplicationStream {
    fn take_next<T: Transport>(
        &mut self,
        feed: &mut Feed<'_, T>,
        feedback: &mut Feedback,
        now: Now,
    ) -> Result<Option<Taken>, Error> {
        let Some(message) = self.buffered()? else { return Ok(None) };
        let taken = take(feed, feedback, message, now)?;
        if let Taken::Message { lsn, .. } | Taken::Lacking { lsn, .. } = &taken {
            self.passed(*lsn);
        }
        Ok(Some(taken))
    }
}

/// Handles the next message of the stream.
pub(in crate::relay) fn take<T: Transport>(
    feed: &mut Feed<'_, T>,
    feedback: &mut Feedback,
    message: ReplicationMessage<'_>,
    now: Now,
) -> Result<Taken, Error> {
    match message {
        ReplicationMessage::PrimaryKeepalive(keepalive) => {
            feedback.received(keepalive.wal_end);
            feed.mark(keepalive.wal_end)?;
            if keepalive.reply_requested {
                feedback.asked();
            }
            Ok(Taken::Keepalive)
        }
        ReplicationMessage::XLogData(data) => take_data(feed, feedback, data, now),
    }
}

fn take_data<T: Transport>(
    feed: &mut Feed<'_, T>,
    feedback: &mut Feedback,
    data: XLogData<'_>,
    now: Now,
) -> Result<Taken, Error> {
    // A description carries `0/0`.
    let lsn = data.wal_start.max(feedback.last_received());
    let message = decode(data.data, lsn)?;
    feedback.received(lsn);
    if let pgoutput::Message::Begin(begin) = &message {
        feed.late = data.sent_at.since(begin.commit_time) >= LATE;
    }
    match feed.take(data.wal_start, message, now)? {
        Outcome::Lacks(need) => {
            let message = XLogMessage { data: data.data.to_vec(), lsn: data.wal_start };
            Ok(Taken::Lacking { lsn, need, message })
        }
        outcome => Ok(Taken::Message { lsn, outcome: mark_received(feedback, outcome) }),
    }
}

/// Gives a message to the feed again. It may lack something more.
pub(super) fn take_again<T: Transport>(
    feed: &mut Feed<'_, T>,
    feedback: &mut Feedback,
    XLogMessage { data, lsn }: &XLogMessage,
    now: Now,
) -> Result<Outcome, Error> {
    let outcome = feed.take(*lsn, decode(data, *lsn)?, now)?;
    Ok(mark_received(feedback, outcome))
}

/// Lets the feed hand over records that have waited.
pub(super) fn resume(
    feed: &mut Feed<'_, impl Transport>,
    feedback: &mut Feedback,
    records: UnsentRecords,
    now: Now,
) -> Result<Outcome, Error> {
    Ok(mark_received(feedback, feed.resume(records, now)?))
}

/// Reports a commit as received up to its end.
fn mark_received(feedback: &mut Feedback, outcome: Outcome) -> Outcome {
    if let Outcome::Committed(end_lsn) = outcome {
        feedback.received(end_lsn);
    }
    outcome
}

fn decode(data: &[u8], lsn: Lsn) -> Result<pgoutput::Message<'_>, Error> {
    pgoutput::decode(data).map_err(|source| Error::Decode { lsn, source })
}
