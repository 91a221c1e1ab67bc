//! What a message of the stream means to the feed and to what the server is told: the session's decisions without its
//! sockets. The simulation drives the same.

use super::Error;
use super::feed::{Feed, Wish};
use super::needs::{Met, Need, Waiting};
use crate::kafka::Outlet;
use crate::pgoutput;
use crate::replication::{Feedback, ReplicationMessage, XLogData};
use crate::wal::Lsn;

/// What has become of a message.
pub(super) enum Taken {
    /// It was a keepalive.
    Keepalive,
    /// The feed has it. It stands at `lsn`.
    Message { lsn: Lsn, wish: Wish },
    /// It waits for what it needs.
    Held { lsn: Lsn, need: Need, waiting: Waiting },
}

/// Where the stream stands with a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reading {
    /// No stop: go on.
    On,
    /// Told to stop: to the end of the open transaction, so that it is not repeated.
    ToCommit,
    /// No further.
    Off,
}

impl Reading {
    /// A row that waits for `brief` things only does not hold up a stop; a registry or a broker that does not answer must
    /// not.
    pub(super) const fn next(self, stopped: bool, in_transaction: bool, brief: bool) -> Self {
        match self {
            Self::On if !stopped => Self::On,
            Self::On | Self::ToCommit if in_transaction && brief => Self::ToCommit,
            Self::On | Self::ToCommit | Self::Off => Self::Off,
        }
    }
}

/// Takes the next message of the stream.
pub(super) fn take<O: Outlet>(
    feed: &mut Feed<'_, O>,
    feedback: &mut Feedback,
    message: ReplicationMessage<'_>,
) -> Result<Taken, Error> {
    match message {
        ReplicationMessage::PrimaryKeepalive(keepalive) => {
            feedback.received(keepalive.wal_end);
            feed.flight.mark(keepalive.wal_end);
            if keepalive.reply_requested {
                feedback.asked();
            }
            Ok(Taken::Keepalive)
        }
        ReplicationMessage::XLogData(data) => take_data(feed, feedback, data),
    }
}

fn take_data<O: Outlet>(
    feed: &mut Feed<'_, O>,
    feedback: &mut Feedback,
    data: XLogData<'_>,
) -> Result<Taken, Error> {
    // A description carries `0/0`.
    let lsn = data.wal_start.max(feedback.last_received());
    let message = decode(data.data, lsn)?;
    feedback.received(lsn);
    match feed.take(data.wal_start, message)? {
        Wish::Await(need) => {
            Ok(Taken::Held { lsn, need, waiting: Waiting::Message { data: data.data.to_vec(), lsn } })
        }
        wish => Ok(Taken::Message { lsn, wish: heard(feedback, wish) }),
    }
}

/// Takes a message again that has waited: what it needed is there, or will not come. It may need something more.
pub(super) fn take_again<O: Outlet>(
    feed: &mut Feed<'_, O>,
    feedback: &mut Feedback,
    met: Option<Met>,
    (data, lsn): (&[u8], Lsn),
) -> Result<Wish, Error> {
    met.into_iter().for_each(|met| feed.learn(met));
    let wish = feed.take(lsn, decode(data, lsn)?)?;
    Ok(heard(feedback, wish))
}

/// A commit was received up to its end.
pub(super) fn heard(feedback: &mut Feedback, wish: Wish) -> Wish {
    if let Wish::Committed(end_lsn) = wish {
        feedback.received(end_lsn);
    }
    wish
}

fn decode(data: &[u8], lsn: Lsn) -> Result<pgoutput::Message<'_>, Error> {
    pgoutput::decode(data).map_err(|source| Error::Decode { lsn, source })
}
