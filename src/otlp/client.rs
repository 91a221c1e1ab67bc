use std::time::Duration;
use std::{fs, io};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, header};
use openssl::ssl::SslConnector;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use prost::Message as _;
use tokio::time::timeout;

use super::error::Error;
use super::options::Options;
use crate::http_client::{USER_AGENT, connect, connector, exchange, secure};

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Sends requests to a collector, a connection each.
pub(super) struct Client {
    options: Options,
    tls: Option<SslConnector>,
}

impl Client {
    /// Reads the certificates.
    pub(super) fn new(options: Options) -> Result<Self, Error> {
        let unreadable = |source| {
            let path = options.authorities.clone().unwrap_or_default();
            Error::Certificates { path, source }
        };
        let authorities = options.authorities.as_ref().map(fs::read).transpose().map_err(unreadable)?;
        let tls = options.endpoint.tls.then(|| connector(authorities.as_deref())).transpose();
        let tls = tls.map_err(unreadable)?;
        Ok(Self { options, tls })
    }

    /// Sends once. How many of the spans the collector has refused.
    pub(super) async fn send(&self, request: &ExportTraceServiceRequest) -> Result<u64, Error> {
        let endpoint = || self.options.endpoint.to_string();
        let limit = self.options.timeout;
        let answer = timeout(limit, self.ask(request.encode_to_vec(), limit)).await;
        let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let (status, body) = answer.map_err(|source| Error::Unreachable { endpoint: endpoint(), source })?;
        if status != 200 {
            return Err(Error::Refused { endpoint: endpoint(), status });
        }
        // Some collectors answer with nothing, or with JSON: only a whole message can say that spans were refused.
        let answer = ExportTraceServiceResponse::decode(body).unwrap_or_default();
        let refused = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
        Ok(u64::try_from(refused).unwrap_or_default())
    }

    async fn ask(&self, body: Vec<u8>, patience: Duration) -> io::Result<(u16, Bytes)> {
        let address = &self.options.endpoint;
        let transport = connect(address).await?;
        let transport = match &self.tls {
            Some(tls) => secure(transport, &address.host, tls.configure()?).await?,
            None => transport,
        };
        exchange(transport, self.message(body).map_err(io::Error::other)?, patience, read).await
    }

    fn message(&self, body: Vec<u8>) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
        let Options { endpoint, headers, .. } = &self.options;
        let path = if endpoint.path.is_empty() { "/" } else { &endpoint.path };
        let mut builder = Request::builder()
            .method(Method::POST)
            .uri(path)
            .header(header::HOST, endpoint.authority())
            .header(header::CONTENT_TYPE, "application/x-protobuf")
            .header(header::USER_AGENT, USER_AGENT);
        if let Some(user) = &endpoint.user {
            builder = builder.header(header::AUTHORIZATION, user.header());
        }
        for (name, value) in headers {
            builder = builder.header(name.as_str(), value.expose());
        }
        builder.body(Full::new(body.into()))
    }
}

async fn read(response: Response<Incoming>) -> io::Result<(u16, Bytes)> {
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    Ok((status, body.map_err(io::Error::other)?.to_bytes()))
}
