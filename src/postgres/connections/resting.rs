//! A socket that the runtime does not watch while nothing is read: each message of a walsender would wake it.

use std::io;
use std::mem;
use std::net;
use std::os::unix::net as unix;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};

/// A socket that the runtime watches, and one that it does not.
pub(super) trait Watched: AsyncRead + AsyncWrite + Unpin + Send + Sized {
    /// The same socket, not watched.
    type Unwatched: Send + Unpin;

    fn unwatch(self) -> io::Result<Self::Unwatched>;

    fn watch(socket: Self::Unwatched) -> io::Result<Self>;
}

/// A socket whose reader can rest.
///
/// A walsender sends each message with a system call of its own. The runtime is woken for each of them, even
/// without a pending read. So a socket that rests is not watched. The next read or write watches it again.
pub(super) enum Resting<S: Watched> {
    Watched(S),
    Rests(S::Unwatched),
    /// The socket could not be converted.
    Lost,
}

impl<S: Watched> Resting<S> {
    /// Stops watching the socket until the next read or write.
    pub(in crate::postgres) fn rest(&mut self) -> io::Result<()> {
        *self = match mem::replace(self, Self::Lost) {
            Self::Watched(socket) => Self::Rests(socket.unwatch()?),
            other => other,
        };
        Ok(())
    }

    fn watched(&mut self) -> io::Result<Pin<&mut S>> {
        *self = match mem::replace(self, Self::Lost) {
            Self::Rests(socket) => Self::Watched(S::watch(socket)?),
            other => other,
        };
        match self {
            Self::Watched(socket) => Ok(Pin::new(socket)),
            Self::Rests(_) | Self::Lost => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Watched for TcpStream {
    type Unwatched = net::TcpStream;

    fn unwatch(self) -> io::Result<net::TcpStream> {
        self.into_std()
    }

    fn watch(socket: net::TcpStream) -> io::Result<Self> {
        Self::from_std(socket)
    }
}

impl Watched for UnixStream {
    type Unwatched = unix::UnixStream;

    fn unwatch(self) -> io::Result<unix::UnixStream> {
        self.into_std()
    }

    fn watch(socket: unix::UnixStream) -> io::Result<Self> {
        Self::from_std(socket)
    }
}

impl<S: Watched> AsyncRead for Resting<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.watched()?.poll_read(context, into)
    }
}

impl<S: Watched> AsyncWrite for Resting<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.watched()?.poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watched()?.poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.watched()?.poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    async fn rests_and_goes_on<S: Watched>(socket: S, mut peer: impl io::Read + io::Write) {
        let mut socket = Resting::Watched(socket);
        let mut bytes = [0; 4];
        for round in 0..3 {
            socket.rest().unwrap();
            socket.rest().unwrap();
            peer.write_all(b"ping").unwrap();
            if round == 1 {
                socket.write_all(b"pong").await.unwrap();
                peer.read_exact(&mut bytes).unwrap();
                assert_eq!(&bytes, b"pong");
            }
            socket.read_exact(&mut bytes).await.unwrap();
            assert_eq!(&bytes, b"ping");
        }
        drop(peer);
        socket.rest().unwrap();
        assert_eq!(socket.read(&mut bytes).await.unwrap(), 0, "the peer has closed it");
    }

    #[tokio::test]
    async fn what_came_during_a_rest_is_read_after_it() {
        let listener = net::TcpListener::bind("127.0.0.1:0").unwrap();
        let peer = net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, _) = listener.accept().unwrap();
        socket.set_nonblocking(true).unwrap();
        rests_and_goes_on(TcpStream::watch(socket).unwrap(), peer).await;

        let (socket, peer) = unix::UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        rests_and_goes_on(UnixStream::watch(socket).unwrap(), peer).await;
    }
}
