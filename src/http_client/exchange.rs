//! Requests over one connection.

use std::io;
use std::pin::Pin;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::client::conn::http1::{self, Connection, SendRequest};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::transport::Transport;

/// The `User-Agent` of all that we ask.
pub(crate) const USER_AGENT: &str = concat!("outboxd/", env!("CARGO_PKG_VERSION"));

/// The body of a question.
pub(crate) trait Question:
    Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static
{
}

impl<B> Question for B where
    B: Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + 'static
{
}

/// Driver of a connection, which moves its bytes.
type Driver<B> = Pin<Box<Connection<TokioIo<Box<dyn Transport>>, B>>>;

/// Connection that carries one request after the other. Between them it is not polled, so a server may have
/// closed it.
pub(crate) struct Exchange<B: Body + 'static> {
    sender: SendRequest<B>,
    /// Connection; none once it has ended.
    connection: Option<Driver<B>>,
}

/// Asks, and lets `read` take the answer while the connection is open. The answer must begin within `patience`.
pub(crate) async fn exchange<T, F, B>(
    transport: Box<dyn Transport>,
    request: Request<B>,
    patience: Duration,
    read: impl FnOnce(Response<Incoming>) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
    B: Question,
{
    Exchange::over(transport).await?.ask(request, patience, read).await
}

impl<B: Question> Exchange<B> {
    /// Opens an exchange without a request.
    pub(crate) async fn over(transport: Box<dyn Transport>) -> io::Result<Self> {
        let (sender, connection) =
            http1::handshake(TokioIo::new(transport)).await.map_err(io::Error::other)?;
        Ok(Self { sender, connection: Some(Box::pin(connection)) })
    }

    /// Sends a request as [`exchange`] does. After a failure the connection is unusable.
    pub(crate) async fn ask<T, F>(
        &mut self,
        request: Request<B>,
        patience: Duration,
        read: impl FnOnce(Response<Incoming>) -> F,
    ) -> io::Result<T>
    where
        F: Future<Output = io::Result<T>>,
    {
        let Some(connection) = &mut self.connection else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let sender = &mut self.sender;
        let exchange = async {
            sender.ready().await.map_err(io::Error::other)?;
            let response = timeout(patience, sender.send_request(request)).await;
            read(response?.map_err(io::Error::other)?).await
        };
        tokio::pin!(exchange);
        let ended = tokio::select! {
            biased;
            // The answer, even when the server ends the connection with it.
            answer = &mut exchange => return answer,
            // The connection does the work of both; its end leaves what is buffered to the exchange.
            ended = connection => ended,
        };
        self.connection = None;
        match ended {
            Ok(()) => exchange.await,
            Err(error) => Err(io::Error::other(error)),
        }
    }
}
