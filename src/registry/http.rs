//! One question and its answer over HTTP/1.1, on a connection of its own: a relay asks seldom.

use std::io;
use std::pin::Pin;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::{Method, Response, header};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_openssl::SslStream;

use super::address::{Address, Credentials};
use super::protocol::{Answer, Request};
use super::tls::Tls;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 4 << 20;

const CONTENT_TYPE: &str = "application/vnd.schemaregistry.v1+json";

/// Anything that carries HTTP.
trait Transport: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Transport for T {}

/// Asks, and waits for the whole answer.
pub(super) async fn ask(
    address: &Address,
    credentials: Option<&Credentials>,
    tls: &Tls,
    request: &Request,
) -> io::Result<Answer> {
    let transport = connect(address, tls).await?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(transport)).await.map_err(io::Error::other)?;
    let message = message(address, credentials, request).map_err(io::Error::other)?;
    let exchange = async {
        let response = sender.send_request(message).await.map_err(io::Error::other)?;
        answer(response).await
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

async fn connect(address: &Address, tls: &Tls) -> io::Result<Box<dyn Transport>> {
    let stream = TcpStream::connect((address.host.as_str(), address.port)).await?;
    stream.set_nodelay(true)?;
    if !address.tls {
        return Ok(Box::new(stream));
    }
    let session = tls.session()?.into_ssl(&address.host)?;
    let mut stream = SslStream::new(session, stream)?;
    Pin::new(&mut stream).connect().await.map_err(io::Error::other)?;
    Ok(Box::new(stream))
}

fn message(
    address: &Address,
    credentials: Option<&Credentials>,
    request: &Request,
) -> Result<hyper::Request<String>, hyper::http::Error> {
    let method = if request.body.is_some() { Method::POST } else { Method::GET };
    let mut builder = hyper::Request::builder()
        .method(method)
        .uri(format!("{}{}", address.path, request.path))
        .header(header::HOST, address.authority())
        .header(header::ACCEPT, format!("{CONTENT_TYPE}, application/json"))
        .header(header::CONTENT_TYPE, CONTENT_TYPE)
        .header(header::USER_AGENT, concat!("outboxd/", env!("CARGO_PKG_VERSION")));
    if let Some(credentials) = credentials {
        builder = builder.header(header::AUTHORIZATION, credentials.header());
    }
    builder.body(request.body.clone().unwrap_or_default())
}

async fn answer(response: Response<Incoming>) -> io::Result<Answer> {
    let status = response.status().as_u16();
    let body =
        Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(io::Error::other)?;
    Ok(Answer { status, body: body.to_bytes().to_vec() })
}
