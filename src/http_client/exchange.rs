use std::io;
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::time::timeout;

use super::transport::Transport;

/// The `User-Agent` of all that we ask.
pub(crate) const USER_AGENT: &str = concat!("outboxd/", env!("CARGO_PKG_VERSION"));

/// Asks, and lets `read` take the answer while the connection is open. The answer must begin within `patience`.
pub(crate) async fn exchange<T, F, B>(
    transport: Box<dyn Transport>,
    request: Request<B>,
    patience: Duration,
    read: impl FnOnce(Response<Incoming>) -> F,
) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
    B: Body + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(transport)).await.map_err(io::Error::other)?;
    let exchange = async {
        let response = timeout(patience, sender.send_request(request)).await;
        read(response?.map_err(io::Error::other)?).await
    };
    tokio::pin!(exchange);
    tokio::select! {
        biased;
        // The answer, even when the server ends the connection with it.
        answer = &mut exchange => answer,
        // The connection does the work of both; its end leaves what is buffered to the exchange.
        ended = connection => match ended {
            Ok(()) => exchange.await,
            Err(error) => Err(io::Error::other(error)),
        },
    }
}
