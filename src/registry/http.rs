//! One question to the registry and its answer.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::{Method, Response, header};

use super::protocol::{Answer, Request};
use super::tls::Tls;
use crate::http_client::{Address, Transport, USER_AGENT, exchange, secure};

/// Timeout of one address.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 4 << 20;

const CONTENT_TYPE: &str = "application/vnd.schemaregistry.v1+json";

/// Asks, and waits for the whole answer. `headers` may have secrets.
pub(super) async fn ask(
    address: &Address,
    headers: &[(&str, &str)],
    tls: &Tls,
    request: &Request,
) -> io::Result<Answer> {
    let message = message(address, headers, request).map_err(io::Error::other)?;
    exchange(connect(address, tls).await?, message, ANSWER_TIMEOUT, answer).await
}

async fn connect(address: &Address, tls: &Tls) -> io::Result<Box<dyn Transport>> {
    let transport = crate::http_client::connect(address).await?;
    if !address.tls {
        return Ok(transport);
    }
    secure(transport, &address.host, tls.session()?).await
}

fn message(
    address: &Address,
    headers: &[(&str, &str)],
    request: &Request,
) -> Result<hyper::Request<String>, hyper::http::Error> {
    let method = if request.body.is_some() { Method::POST } else { Method::GET };
    let mut builder = hyper::Request::builder()
        .method(method)
        .uri(format!("{}{}", address.path, request.path))
        .header(header::HOST, address.authority())
        .header(header::ACCEPT, format!("{CONTENT_TYPE}, application/json"))
        .header(header::CONTENT_TYPE, CONTENT_TYPE)
        .header(header::USER_AGENT, USER_AGENT);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(request.body.clone().unwrap_or_default())
}

async fn answer(response: Response<Incoming>) -> io::Result<Answer> {
    let status = response.status().as_u16();
    let body =
        Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(io::Error::other)?;
    Ok(Answer { status, body: body.to_bytes().to_vec() })
}
