//! Opens TCP and Unix sockets, with the timeouts that detect a dead server.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use openssl::ssl::SslRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};
use tokio::time::{Instant, timeout};
use tokio_openssl::SslStream;

use super::resting::{Resting, Watched};
use super::tls::{Tls, server_end_point};
use crate::postgres::{Error, ServerOptions, SslMode};

/// Time after which an idle link is probed. It is closed after three probes without an answer.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(30);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);
/// Bytes that the peer has not acknowledged for this long end the connection.
const USER_TIMEOUT: Duration = Duration::from_secs(60);
/// Receive buffer for a server nearby; Linux uses twice of it, and no more than `net.core.rmem_max`.
///
/// A walsender sends each message immediately. While the window is open each is a packet of its own, with its
/// acknowledgement; when it is full the sender's kernel collects the following messages. A small window therefore halves
/// a walsender's processor time for the network. The kernel would let it grow to megabytes, because we let data
/// gather.
const NEARBY_RECEIVE_BYTES: usize = 212_992;
/// A server that takes longer to connect may be far away, and then a small window limits the data in flight.
const NEARBY: Duration = Duration::from_millis(5);

/// Anything that carries the protocol.
pub(super) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {
    /// Stops watching the socket until the next read or write: data that arrives meanwhile does not wake the
    /// runtime.
    fn rest(&mut self) -> io::Result<()>;
}

impl<S: Watched> Transport for Resting<S> {
    fn rest(&mut self) -> io::Result<()> {
        Self::rest(self)
    }
}

impl<S: Watched> Transport for SslStream<Resting<S>> {
    fn rest(&mut self) -> io::Result<()> {
        self.get_mut().rest()
    }
}

/// Transport of the simulation.
#[cfg(test)]
impl Transport for tokio::io::Empty {
    fn rest(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A connected transport, and the server's certificate as TLS reports it.
pub(super) struct Socket {
    pub(super) transport: Box<dyn Transport>,
    pub(super) server_end_point: Option<Vec<u8>>,
}

/// Connects with the mode of `database.sslmode`.
pub(in crate::postgres) async fn connect(
    options: &ServerOptions,
    tls: &Tls,
    mode: SslMode,
) -> Result<Socket, Error> {
    let connecting = connect_within(options, tls, mode);
    timeout(options.connect_timeout, connecting).await.unwrap_or_else(|_| {
        let source = io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer within {} ms", options.connect_timeout.as_millis()),
        );
        Err(Error::Connect { address: options.address(), source })
    })
}

async fn connect_within(options: &ServerOptions, tls: &Tls, mode: SslMode) -> Result<Socket, Error> {
    let unreachable = |source| Error::Connect { address: options.address(), source };
    if let Some(path) = options.unix_socket() {
        let stream = UnixStream::connect(path).await.map_err(unreachable)?;
        return Ok(Socket { transport: Box::new(Resting::Watched(stream)), server_end_point: None });
    }
    let begun = Instant::now();
    let mut stream = TcpStream::connect((options.host.as_str(), options.port)).await.map_err(unreachable)?;
    let is_nearby = begun.elapsed() < NEARBY;
    tune(&stream, options.tcp_keepalive, is_nearby).map_err(unreachable)?;
    if matches!(mode, SslMode::Disable | SslMode::Allow)
        || !server_speaks_tls(&mut stream).await.map_err(unreachable)?
    {
        return match mode {
            SslMode::Disable | SslMode::Allow | SslMode::Prefer => {
                Ok(Socket { transport: Box::new(Resting::Watched(stream)), server_end_point: None })
            }
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => {
                Err(Error::TlsRefused { address: options.address(), mode: mode.as_str() })
            }
        };
    }
    let failed = |source| Error::TlsHandshake { address: options.address(), source };
    let session = tls.session(&options.host).map_err(failed)?;
    let mut stream =
        SslStream::new(session, Resting::Watched(stream)).map_err(|source| failed(source.into()))?;
    Pin::new(&mut stream).connect().await.map_err(|source| failed(handshake_error(source, stream.ssl())))?;
    let server_end_point = server_end_point(stream.ssl());
    Ok(Socket { transport: Box::new(stream), server_end_point })
}

/// Requests TLS. Reads exactly one byte in plain text: bytes that a man in the middle adds to it end up in the
/// handshake and breaks it.
async fn server_speaks_tls(stream: &mut TcpStream) -> io::Result<bool> {
    let mut request = bytes::BytesMut::new();
    postgres_protocol::message::frontend::ssl_request(&mut request);
    stream.write_all(&request).await?;
    match stream.read_u8().await? {
        b'S' => Ok(true),
        b'N' => Ok(false),
        other => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the answer to the TLS request is {other:#04x}: is this a PostgreSQL server?"),
        )),
    }
}

/// Makes the error of a handshake. The reason a certificate was not trusted is more precise than OpenSSL's
/// error.
fn handshake_error(error: openssl::ssl::Error, ssl: &SslRef) -> io::Error {
    let verdict = ssl.verify_result();
    if verdict == openssl::x509::X509VerifyResult::OK {
        return error.into_io_error().unwrap_or_else(io::Error::other);
    }
    io::Error::new(io::ErrorKind::InvalidData, format!("the server's certificate is not trusted: {verdict}"))
}

fn tune(stream: &TcpStream, keepalive: bool, is_nearby: bool) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = socket2::SockRef::from(stream);
    if is_nearby {
        socket.set_recv_buffer_size(NEARBY_RECEIVE_BYTES)?;
    }
    if keepalive {
        let probes = socket2::TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
        socket.set_tcp_keepalive(&probes)?;
    }
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(USER_TIMEOUT))?;
    Ok(())
}
