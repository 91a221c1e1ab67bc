//! Connections of HTTP clients.

use std::io;
use std::pin::Pin;

use openssl::ssl::ConnectConfiguration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_openssl::SslStream;

use super::address::Address;

/// Anything that carries HTTP.
pub(crate) trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// Opens a connection to the host and port of an address, not secured yet.
pub(crate) async fn connect(address: &Address) -> io::Result<Box<dyn Transport>> {
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    stream.set_nodelay(true)?;
    Ok(Box::new(stream))
}

/// Begins TLS towards a host, over a connection that leads there.
pub(crate) async fn secure(
    transport: Box<dyn Transport>,
    host: &str,
    session: ConnectConfiguration,
) -> io::Result<Box<dyn Transport>> {
    let mut stream = SslStream::new(session.into_ssl(host)?, transport)?;
    Pin::new(&mut stream).connect().await.map_err(io::Error::other)?;
    Ok(Box::new(stream))
}
