//! The replication connection: our own protocol implementation, since tokio-postgres has no replication mode.

use std::io;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::credential;
use super::login;
use super::login::{Mode, Proof, ROLE_NAMES};
use super::socket::{self, Transport};
use super::tls::Tls;
use crate::postgres::catalog::grants::ALL_ROWS;
use crate::postgres::{Error, ServerOptions, SslMode};
use crate::wal::Lsn;
use crate::wire::{BackendMessage, Frame, ReceiveBuffer};

/// A replication connection (`replication=database`): our own, because tokio-postgres has no replication mode.
pub struct Connection {
    transport: Box<dyn Transport>,
    input: ReceiveBuffer,
    output: BytesMut,
    backend: i32,
    position: Lsn,
}

/// Rows of a command's answer, in text form.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

impl Connection {
    /// Connects to a walsender and logs in.
    ///
    /// # Errors
    /// When the server cannot be reached, TLS fails, or the login is refused.
    pub async fn open(
        options: &ServerOptions,
        tls: &TlsSetup,
        application: &str,
        message_bytes_max: usize,
    ) -> Result<Self, Error> {
        Self::open_as(Mode::Replication, options, tls, application, message_bytes_max).await
    }

    /// Opens a session that reads tables, after `database.initial.statements`, as Debezium's. Where policies hide rows from the role,
    /// the server refuses a statement rather than skip them.
    ///
    /// It has the role's own `search_path`, unlike every other session: the text of a `regclass` depends on it, and so do the
    /// conditions and statements that users write for snapshots. Each name in a statement of ours is qualified for it.
    pub(in crate::postgres) async fn open_to_read(
        options: &ServerOptions,
        tls: &TlsSetup,
        application: &str,
        message_bytes_max: usize,
    ) -> Result<Self, Error> {
        let mut connection = Self::open_as(Mode::Sql, options, tls, application, message_bytes_max).await?;
        connection.use_role_names().await?;
        for statement in &options.initial_statements {
            connection.command("running database.initial.statements", statement).await?;
        }
        connection.command("preparing to read all rows", ALL_ROWS).await?;
        Ok(connection)
    }

    /// Returns to the role's own `search_path`, for statements in which every name is qualified.
    pub(in crate::postgres) async fn use_role_names(&mut self) -> Result<(), Error> {
        self.command("preparing the session", ROLE_NAMES).await.map(drop)
    }

    async fn open_as(
        mode: Mode,
        options: &ServerOptions,
        tls: &TlsSetup,
        application: &str,
        message_bytes_max: usize,
    ) -> Result<Self, Error> {
        let mut login = credential::Login::begin(options).await?;
        loop {
            let password = login.password();
            let attempt = |tls_mode| async move {
                let socket = socket::connect(options, &tls.0, tls_mode).await?;
                let mut connection = Self {
                    transport: socket.transport,
                    input: ReceiveBuffer::new(message_bytes_max),
                    output: BytesMut::new(),
                    backend: 0,
                    position: Lsn::ZERO,
                };
                let proof = Proof { password, server_end_point: socket.server_end_point };
                let logging_in = login::log_in(&mut connection, options, application, mode, proof);
                let seconds = options.connect_timeout.as_secs();
                let overdue = |_| Error::Timeout { doing: "logging in".to_owned(), seconds };
                connection.backend =
                    tokio::time::timeout(options.connect_timeout, logging_in).await.map_err(overdue)??;
                Ok(connection)
            };
            let outcome = match attempt(options.tls.mode).await {
                // `allow` is "TLS only when plain text is refused".
                Err(Error::Login { .. }) if options.tls.mode == SslMode::Allow => {
                    attempt(SslMode::Require).await
                }
                outcome => outcome,
            };
            match outcome {
                Ok(connection) => return Ok(connection),
                Err(error) => login.renew_after(error).await?,
            }
        }
    }

    /// Returns the process id of the walsender.
    #[must_use]
    pub const fn backend(&self) -> i32 {
        self.backend
    }

    /// Runs a replication command and collects its rows.
    ///
    /// # Errors
    /// When the server refuses it or the connection breaks.
    pub async fn command(&mut self, doing: &str, text: &str) -> Result<Rows, Error> {
        self.send(|out| frontend::query(text, out)).await?;
        let (mut rows, mut refusal) = (Rows::new(), None);
        loop {
            match self.receive("waiting for the answer to a command").await? {
                BackendMessage::DataRow(row) => rows.push(row.into_iter().map(text_of).collect()),
                BackendMessage::ErrorResponse(source) => {
                    refusal = Some(Error::Server { doing: doing.to_owned(), source: Box::new(source) });
                }
                BackendMessage::ReadyForQuery => return refusal.map_or(Ok(rows), Err),
                BackendMessage::RowDescription(_)
                | BackendMessage::CommandComplete
                | BackendMessage::NoticeResponse(_)
                | BackendMessage::ParameterStatus { .. } => {}
                other => {
                    let message = Self::name(&other);
                    return Err(Error::Unexpected { message, doing: "waiting for the answer to a command" });
                }
            }
        }
    }

    /// Sends START_REPLICATION and waits until both sides stream.
    ///
    /// # Errors
    /// When the server refuses it or the connection breaks.
    pub(super) async fn start_copy(&mut self, doing: &str, text: &str) -> Result<(), Error> {
        self.send(|out| frontend::query(text, out)).await?;
        loop {
            match self.receive("starting replication").await? {
                BackendMessage::CopyBothResponse => return Ok(()),
                BackendMessage::NoticeResponse(_) | BackendMessage::ParameterStatus { .. } => {}
                BackendMessage::ErrorResponse(source) => {
                    return Err(Error::Server { doing: doing.to_owned(), source: Box::new(source) });
                }
                other => {
                    return Err(Error::Unexpected {
                        message: Self::name(&other),
                        doing: "starting replication",
                    });
                }
            }
        }
    }

    /// Sends Terminate, on which the server ends the session.
    pub(super) async fn terminate(&mut self) -> Result<(), Error> {
        self.send(|out| {
            frontend::terminate(out);
            Ok(())
        })
        .await
    }

    /// Returns the next message, reading from the socket as needed.
    pub(in crate::postgres) async fn receive(
        &mut self,
        doing: &'static str,
    ) -> Result<BackendMessage<'_>, Error> {
        while !self.has_frame()? {
            self.fill(doing).await?;
        }
        let lsn = self.position;
        match self.buffered()? {
            Some(frame) => BackendMessage::decode(frame).map_err(|source| Error::Decode { lsn, source }),
            None => Err(Error::Unexpected { message: "end of the buffer".to_owned(), doing }),
        }
    }

    /// Returns the next message that is in the buffer already.
    pub(in crate::postgres) fn buffered(&mut self) -> Result<Option<Frame<'_>>, Error> {
        let after = self.position;
        self.input.next_frame().map_err(|source| Error::Frame { after, source })
    }

    /// Reads once from the socket. Cancel-safe: the bytes that were read are in the buffer.
    pub(in crate::postgres) async fn fill(&mut self, doing: &'static str) -> Result<usize, Error> {
        let read = self.transport.read_buf(self.input.space()).await;
        match read {
            Ok(0) => Err(Error::Broken { doing, source: io::ErrorKind::UnexpectedEof.into() }),
            Ok(count) => Ok(count),
            Err(source) => Err(Error::Broken { doing, source }),
        }
    }

    /// Stops watching the socket until the next read or write.
    pub(in crate::postgres) fn rest(&mut self, doing: &'static str) -> Result<(), Error> {
        self.transport.rest().map_err(|source| Error::Broken { doing, source })
    }

    /// Writes one message and waits until the socket has accepted it.
    pub(in crate::postgres) async fn send(
        &mut self,
        write: impl FnOnce(&mut BytesMut) -> io::Result<()>,
    ) -> Result<(), Error> {
        const DOING: &str = "sending to it";
        write(&mut self.output).map_err(|source| Error::Broken { doing: DOING, source })?;
        self.transport
            .write_all_buf(&mut self.output)
            .await
            .map_err(|source| Error::Broken { doing: DOING, source })?;
        self.transport.flush().await.map_err(|source| Error::Broken { doing: DOING, source })
    }

    /// Remembers how far the stream was read, for error messages. Some messages carry `0/0`.
    pub(in crate::postgres) fn at(&mut self, position: Lsn) {
        self.position = self.position.max(position);
    }

    /// Returns the LSN up to which the stream was read.
    pub(in crate::postgres) const fn position(&self) -> Lsn {
        self.position
    }

    /// Returns the tag of the next message, when the whole of it is in the buffer.
    pub(in crate::postgres) fn next_tag(&mut self) -> Result<Option<u8>, Error> {
        let after = self.position;
        self.input.next_tag().map_err(|source| Error::Frame { after, source })
    }

    fn has_frame(&mut self) -> Result<bool, Error> {
        Ok(self.next_tag()?.is_some())
    }

    pub(in crate::postgres) fn name(message: &BackendMessage<'_>) -> String {
        match message {
            BackendMessage::ErrorResponse(error) => format!("error: {error}"),
            BackendMessage::CopyData(_) => "CopyData".to_owned(),
            BackendMessage::DataRow(_) => "DataRow".to_owned(),
            other => format!("{other:?}"),
        }
    }
}

#[cfg(test)]
impl Connection {
    /// Makes one without a socket.
    pub(super) fn offline(message_bytes_max: usize) -> Self {
        Self {
            transport: Box::new(tokio::io::empty()),
            input: ReceiveBuffer::new(message_bytes_max),
            output: BytesMut::new(),
            backend: 0,
            position: Lsn::ZERO,
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.input.space().extend_from_slice(bytes);
    }
}

/// The TLS files, which are read again for a connection after they have changed.
#[derive(Clone)]
pub struct TlsSetup(pub(in crate::postgres) Tls);

impl TlsSetup {
    /// Reads the certificate and key files that the options name.
    ///
    /// # Errors
    /// When one cannot be read or used.
    pub fn new(options: &ServerOptions) -> Result<Self, Error> {
        Tls::new(&options.tls).map(Self)
    }
}

impl std::fmt::Debug for TlsSetup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TlsSetup")
    }
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("backend", &self.backend)
            .field("position", &self.position)
            .finish()
    }
}

fn text_of(value: Option<&[u8]>) -> Option<String> {
    value.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
}
