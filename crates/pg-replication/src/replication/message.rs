//! Messages of a walsender.

use bytes::{BufMut, BytesMut};

use crate::wal::{Lsn, PgTimestamp};
use crate::wire::{DecodeError, Reader, Shortage};

/// A part of the decoded stream: one pgoutput message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct XLogData<'a> {
    /// LSN of the WAL record that the message was decoded from; `0/0` for a `Relation`.
    pub wal_start: Lsn,
    /// End of the WAL on the server.
    pub wal_end: Lsn,
    /// Server clock at the time of sending.
    pub sent_at: PgTimestamp,
    /// The pgoutput message.
    pub data: &'a [u8],
}

/// Keepalive message of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrimaryKeepalive {
    /// Position before which all WAL has been decoded and sent.
    pub wal_end: Lsn,
    /// Server clock at the time of sending.
    pub sent_at: PgTimestamp,
    /// Request for an immediate reply.
    pub reply_requested: bool,
}

/// Content of a CopyData message from the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplicationMessage<'a> {
    /// `w`
    XLogData(XLogData<'a>),
    /// `k`
    PrimaryKeepalive(PrimaryKeepalive),
}

/// Progress report to the server. The server trusts it: a flush position beyond what was acknowledged loses data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StandbyStatusUpdate {
    /// Position up to which the stream was received.
    pub written: Lsn,
    /// Position before which nothing is needed again.
    pub flushed: Lsn,
    /// Client clock at the time of sending.
    pub sent_at: PgTimestamp,
    /// Request for an immediate reply.
    pub reply_requested: bool,
}

/// Decodes the content of one CopyData message.
///
/// # Errors
/// When the tag is unknown or a field is truncated.
pub fn decode(body: &[u8]) -> Result<ReplicationMessage<'_>, DecodeError> {
    let mut reader = Reader::new("CopyData", body);
    let at = reader.clone();
    match reader.u8()? {
        b'w' => {
            reader.name("XLogData");
            Ok(ReplicationMessage::XLogData(XLogData {
                wal_start: Lsn::new(reader.u64()?),
                wal_end: Lsn::new(reader.u64()?),
                sent_at: PgTimestamp(reader.i64()?),
                data: reader.rest(),
            }))
        }
        b'k' => {
            reader.name("PrimaryKeepalive");
            let keepalive = PrimaryKeepalive {
                wal_end: Lsn::new(reader.u64()?),
                sent_at: PgTimestamp(reader.i64()?),
                reply_requested: reader.u8()? != 0,
            };
            reader.end()?;
            Ok(ReplicationMessage::PrimaryKeepalive(keepalive))
        }
        other => Err(at.error(Shortage::UnknownTag(other))),
    }
}

impl StandbyStatusUpdate {
    /// Length of the whole message in bytes, including its framing.
    const WIRE_BYTES: usize = 39;

    /// Appends the update as a CopyData message.
    pub fn encode(&self, out: &mut BytesMut) {
        out.reserve(Self::WIRE_BYTES);
        out.put_u8(b'd');
        out.put_u32(38);
        out.put_u8(b'r');
        out.put_u64(self.written.get());
        out.put_u64(self.flushed.get());
        // The applied position equals the flush position, because the client applies nothing.
        out.put_u64(self.flushed.get());
        out.put_i64(self.sent_at.0);
        out.put_u8(u8::from(self.reply_requested));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn xlogdata(message: &XLogData<'_>) -> Vec<u8> {
        let mut out = vec![b'w'];
        out.put_u64(message.wal_start.get());
        out.put_u64(message.wal_end.get());
        out.put_i64(message.sent_at.0);
        out.put_slice(message.data);
        out
    }

    fn keepalive(message: &PrimaryKeepalive) -> Vec<u8> {
        let mut out = vec![b'k'];
        out.put_u64(message.wal_end.get());
        out.put_i64(message.sent_at.0);
        out.put_u8(u8::from(message.reply_requested));
        out
    }

    proptest! {
        #[test]
        fn xlogdata_is_read_as_it_was_written(start: u64, end: u64, at: i64, data: Vec<u8>) {
            let message = XLogData { wal_start: Lsn::new(start), wal_end: Lsn::new(end), sent_at: PgTimestamp(at), data: &data };
            let wire = xlogdata(&message);
            prop_assert_eq!(decode(&wire), Ok(ReplicationMessage::XLogData(message)));
        }

        #[test]
        fn a_keepalive_is_read_as_it_was_written(end: u64, at: i64, reply_requested: bool) {
            let message = PrimaryKeepalive { wal_end: Lsn::new(end), sent_at: PgTimestamp(at), reply_requested };
            let wire = keepalive(&message);
            prop_assert_eq!(decode(&wire), Ok(ReplicationMessage::PrimaryKeepalive(message)));
            for end in 0..wire.len() {
                prop_assert!(decode(&wire[..end]).is_err());
            }
            prop_assert!(decode(&[&wire[..], &[0]].concat()).is_err());
        }

        #[test]
        fn any_bytes_are_decoded_or_refused(
            tag in prop::sample::select(b"wk?".to_vec()),
            mut body in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            body.insert(0, tag);
            match decode(&body) {
                Ok(ReplicationMessage::XLogData(message)) => prop_assert_eq!(xlogdata(&message), body),
                Ok(ReplicationMessage::PrimaryKeepalive(_)) => prop_assert_eq!(body.len(), 18),
                Err(_) => prop_assert!(tag != b'w' || body.len() < 25),
            }
        }
    }

    #[test]
    fn a_status_update_has_the_layout_of_the_manual() {
        let mut out = BytesMut::new();
        let update = StandbyStatusUpdate {
            written: Lsn::new(3),
            flushed: Lsn::new(2),
            sent_at: PgTimestamp(1),
            reply_requested: true,
        };
        update.encode(&mut out);
        assert_eq!(out.len(), StandbyStatusUpdate::WIRE_BYTES);
        let mut reader = Reader::new("test", &out);
        assert_eq!((reader.u8(), reader.u32(), reader.u8()), (Ok(b'd'), Ok(38), Ok(b'r')));
        assert_eq!((reader.u64(), reader.u64(), reader.u64()), (Ok(3), Ok(2), Ok(2)));
        assert_eq!((reader.i64(), reader.u8(), reader.end()), (Ok(1), Ok(1), Ok(())));
    }
}
