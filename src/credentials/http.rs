//! Requests to identity providers, and to services of clouds and their metadata.

use std::io;
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, header};
use zeroize::Zeroizing;

use crate::http_client::{Address, USER_AGENT, connect, connector, exchange, secure};

const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// An answer, whose body is wiped when it is dropped.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Zeroizing<String>,
}

/// Asks one URL. `headers` may have secrets.
pub(super) async fn ask(
    method: Method,
    url: &str,
    headers: &[(&str, &str)],
    body: String,
) -> io::Result<Answer> {
    // From another network the metadata does not even refuse a connection.
    tokio::time::timeout(ANSWER_TIMEOUT, async {
        let address =
            Address::parse(url).ok_or_else(|| io::Error::other("it is no URL with http or https"))?;
        let transport = connect(&address).await?;
        let transport = if address.tls {
            // Reading the system's authorities takes a while.
            let connector =
                tokio::task::spawn_blocking(|| connector(None)).await.map_err(io::Error::other)??;
            secure(transport, &address.host, connector.configure()?).await?
        } else {
            transport
        };
        let target: hyper::Uri = url.trim().parse().map_err(io::Error::other)?;
        let path = target.path_and_query().map_or("/", |target| target.as_str());
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, address.authority())
            .header(header::USER_AGENT, USER_AGENT);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(body).map_err(io::Error::other)?;
        exchange(transport, request, ANSWER_TIMEOUT, answer).await
    })
    .await?
}

async fn answer(response: Response<Incoming>) -> io::Result<Answer> {
    let status = response.status().as_u16();
    let body =
        Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await.map_err(io::Error::other)?;
    let body = Zeroizing::new(String::from_utf8_lossy(&body.to_bytes()).into_owned());
    Ok(Answer { status, body })
}
