//! The replication stream: reading from the socket and decoding are two steps, so that a full window can stop the first.

use super::connection::Connection;
use crate::postgres::Error;
use crate::postgres::error::{NO_PUBLICATION_FIX, STREAMING};
use crate::replication::{ReplicationMessage, StandbyStatusUpdate, StartReplication, decode};
use crate::wal::Lsn;
use crate::wire::{BackendMessage, ServerError};

/// A started logical replication stream.
///
/// Reading is in two steps, so that a caller with a full window can stop reading while status updates go on:
/// [`Self::fill`] reads from the socket once, [`Self::buffered`] decodes the buffered messages, and borrows from the buffer.
#[derive(Debug)]
pub struct ReplicationStream {
    connection: Connection,
}

impl ReplicationStream {
    /// Starts streaming at the slot's position.
    ///
    /// # Errors
    /// When the server refuses (the slot is active, invalidated or missing) or the connection breaks.
    pub async fn start(mut connection: Connection, command: &StartReplication<'_>) -> Result<Self, Error> {
        let doing = format!("START_REPLICATION of slot {:?}", command.slot);
        // The text of a regclass in the stream is the one that Debezium sends, which depends on the role's search_path. The
        // walsender resolves no name while it streams.
        connection.use_role_names().await?;
        connection.start_copy(&doing, &command.text()).await?;
        Ok(Self { connection })
    }

    /// Returns the next message in the buffer, or `None` when the socket must be read.
    ///
    /// # Errors
    /// When the stream ends, cannot be understood, or the server reports an error.
    pub fn buffered(&mut self) -> Result<Option<ReplicationMessage<'_>>, Error> {
        // Notices are rare and handled here; the loop ends at the first message that is the caller's.
        while self.next_is_aside()? {
            self.skip_aside()?;
        }
        let lsn = self.connection.position();
        let Some(frame) = self.connection.buffered()? else { return Ok(None) };
        decode(frame.body).map(Some).map_err(|source| Error::Decode { lsn, source })
    }

    /// Remembers how far the stream was read, for error messages.
    pub fn passed(&mut self, lsn: Lsn) {
        self.connection.at(lsn);
    }

    /// Reads once from the socket. Cancel-safe.
    ///
    /// # Errors
    /// When the connection is closed or broken.
    pub async fn fill(&mut self) -> Result<usize, Error> {
        self.connection.fill("streaming").await
    }

    /// Stops watching the socket until the next read: data that the server sends meanwhile does not wake the
    /// runtime. May be called repeatedly.
    ///
    /// # Errors
    /// When the connection is broken.
    pub fn rest(&mut self) -> Result<(), Error> {
        self.connection.rest("streaming")
    }

    /// Sends a standby status update.
    ///
    /// # Errors
    /// When the connection is broken.
    pub async fn update(&mut self, update: &StandbyStatusUpdate) -> Result<(), Error> {
        self.connection
            .send(|out| {
                update.encode(out);
                Ok(())
            })
            .await
    }

    /// Ends the stream: sends CopyDone, reads everything until the server waits for another command, and
    /// terminates. Behind its own CopyDone the server releases the slot, so that the next client does not
    /// find it in use.
    ///
    /// # Errors
    /// When the connection breaks before the server's CopyDone.
    pub async fn finish(mut self) -> Result<(), Error> {
        self.connection
            .send(|out| {
                postgres_protocol::message::frontend::copy_done(out);
                Ok(())
            })
            .await?;
        let mut is_over = false;
        loop {
            match self.connection.receive("ending the stream").await {
                Ok(BackendMessage::ReadyForQuery) => return self.connection.terminate().await,
                Ok(BackendMessage::CopyDone) => is_over = true,
                // A server that stops leaves there, and the slot is free with that.
                Ok(BackendMessage::ErrorResponse(_)) | Err(_) if is_over => return Ok(()),
                Ok(BackendMessage::ErrorResponse(source)) => {
                    return Err(Error::Server {
                        doing: "ending the stream".to_owned(),
                        source: Box::new(source),
                    });
                }
                Ok(_) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn next_is_aside(&mut self) -> Result<bool, Error> {
        Ok(self.connection.next_tag()?.is_some_and(|tag| tag != b'd'))
    }

    fn skip_aside(&mut self) -> Result<(), Error> {
        let lsn: Lsn = self.connection.position();
        let Some(frame) = self.connection.buffered()? else { return Ok(()) };
        match BackendMessage::decode(frame).map_err(|source| Error::Decode { lsn, source })? {
            BackendMessage::NoticeResponse(notice) if is_skipped_publication(&notice) => {
                Err(Error::Precondition {
                    problem: format!("PostgreSQL streams without the publication: {}", notice.message),
                    fix: NO_PUBLICATION_FIX.to_owned(),
                })
            }
            BackendMessage::NoticeResponse(notice) => {
                tracing::warn!(%lsn, notice = %notice, "notice of the walsender");
                Ok(())
            }
            BackendMessage::ParameterStatus { .. } => Ok(()),
            BackendMessage::ErrorResponse(source) => {
                Err(Error::Server { doing: STREAMING.to_owned(), source: Box::new(source) })
            }
            // The server shuts down, or ends the stream for another reason.
            BackendMessage::CopyDone | BackendMessage::CommandComplete | BackendMessage::ReadyForQuery => {
                Err(Error::Broken {
                    doing: "streaming",
                    source: std::io::ErrorKind::ConnectionAborted.into(),
                })
            }
            other => Err(Error::Unexpected { message: Connection::name(&other), doing: "streaming" }),
        }
    }
}

/// Returns whether a notice means that PostgreSQL 18 continues without a publication that it does not find,
/// which it reports only in a warning: "skipped loading publication". `lc_messages` may translate that, so it
/// is recognised by the fields that are never translated. It is the only warning with this SQLSTATE
/// (`object_not_in_prerequisite_state`) in that file.
fn is_skipped_publication(notice: &ServerError) -> bool {
    notice.severity == "WARNING" && notice.code == "55000" && notice.file.as_deref() == Some("pgoutput.c")
}

/// For the simulation, which has a server without a socket.
#[cfg(test)]
impl ReplicationStream {
    /// Creates a stream that has just started and reads nothing on its own.
    pub(crate) fn offline(message_bytes_max: usize) -> Self {
        Self { connection: Connection::offline(message_bytes_max) }
    }

    /// Adds bytes as [`Self::fill`] would read them.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.connection.feed(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads a stream that was sent this notice.
    fn noticed(fields: &str) -> Result<(), Error> {
        let mut stream = ReplicationStream::offline(1 << 20);
        let body = format!("{}\0\0", fields.replace('|', "\0"));
        let length = u32::try_from(body.len() + 4).unwrap();
        stream.feed(&[b"N", &length.to_be_bytes()[..], body.as_bytes()].concat());
        stream.buffered().map(drop)
    }

    #[test]
    fn a_skipped_publication_is_known_in_every_language() {
        let cases = [
            (
                "SWARNING|VWARNING|C55000|Mskipped loading publication \"p\"|Fpgoutput.c|L1800|RLoadPublications",
                true,
            ),
            (
                "SWARNUNG|VWARNING|C55000|MPublikation »p« wird ausgelassen|Fpgoutput.c|L9|RLoadPublications",
                true,
            ),
            ("SNOTICE|VNOTICE|C00000|Mskipped loading publication|Flogical.c|L1|RStartup", false),
            ("SWARNING|VWARNING|C01000|Manother|Fpgoutput.c|L1|Rpgoutput_startup", false),
            ("SWARNING|VWARNING|C55000|Manother|Fslot.c|L1|RReplicationSlotAcquire", false),
        ];
        for (fields, ends) in cases {
            let outcome = noticed(fields);
            assert_eq!(matches!(outcome, Err(Error::Precondition { .. })), ends, "{fields}: {outcome:?}");
            assert_eq!(outcome.is_err(), ends, "{fields}");
        }
    }
}
