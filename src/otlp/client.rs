//! Requests to a collector.

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
use crate::http_client::{Exchange, USER_AGENT, connect, connector, secure};

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// Most characters that are logged of a collector's reason for refused spans.
const REASON_CHARS_MAX: usize = 200;

/// Sends requests to a collector, over one connection as long as that works.
pub(super) struct Client {
    options: Options,
    tls: Option<SslConnector>,
    kept: Option<Exchange<Full<Bytes>>>,
}

/// Spans that a collector has refused of an accepted request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) spans: u64,
    /// Its own words.
    pub(super) reason: String,
}

impl Client {
    /// Reads the certificates.
    pub(super) fn new(options: Options) -> Result<Self, Error> {
        let unreadable = |source| match options.authorities.clone() {
            Some(path) => Error::Certificates { path, source },
            None => Error::SystemCertificates(source),
        };
        let authorities = options.authorities.as_ref().map(fs::read).transpose().map_err(unreadable)?;
        let tls = options.endpoint.tls.then(|| connector(authorities.as_deref())).transpose();
        let tls = tls.map_err(unreadable)?;
        Ok(Self { options, tls, kept: None })
    }

    /// Sends once.
    pub(super) async fn send(&mut self, request: &ExportTraceServiceRequest) -> Result<Rejection, Error> {
        let limit = self.options.timeout;
        let answer = timeout(limit, self.ask(request.encode_to_vec().into(), limit)).await;
        let endpoint = || self.options.endpoint.to_string();
        let answer = answer.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        let (status, body) = answer.map_err(|source| Error::Unreachable { endpoint: endpoint(), source })?;
        if status != 200 {
            return Err(Error::Refused { endpoint: endpoint(), status });
        }
        // Some collectors answer with nothing, or with JSON: only a whole message can report refused spans.
        let answer = ExportTraceServiceResponse::decode(body).unwrap_or_default();
        Ok(answer.partial_success.map_or_else(Rejection::default, |partial| Rejection {
            spans: u64::try_from(partial.rejected_spans).unwrap_or_default(),
            reason: partial.error_message.chars().take(REASON_CHARS_MAX).collect(),
        }))
    }

    /// Sends a request over the open connection, unless the collector has closed it since. A caller that
    /// gives up waiting gives the connection up too.
    async fn ask(&mut self, body: Bytes, patience: Duration) -> io::Result<(u16, Bytes)> {
        let first = self.message(body.clone()).map_err(io::Error::other)?;
        let second = self.message(body).map_err(io::Error::other)?;
        if let Some(mut kept) = self.kept.take()
            && let Ok(answer) = kept.ask(first, patience, read).await
        {
            self.kept = Some(kept);
            return Ok(answer);
        }
        let address = &self.options.endpoint;
        let transport = connect(address).await?;
        let transport = match &self.tls {
            Some(tls) => secure(transport, &address.host, tls.configure()?).await?,
            None => transport,
        };
        let mut exchange = Exchange::over(transport).await?;
        let answer = exchange.ask(second, patience, read).await?;
        self.kept = Some(exchange);
        Ok(answer)
    }

    fn message(&self, body: Bytes) -> Result<Request<Full<Bytes>>, hyper::http::Error> {
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
            builder = builder.header(name, value);
        }
        builder.body(Full::new(body))
    }
}

async fn read(response: Response<Incoming>) -> io::Result<(u16, Bytes)> {
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    Ok((status, body.map_err(io::Error::other)?.to_bytes()))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::thread::{self, JoinHandle};

    use opentelemetry_proto::tonic::collector::trace::v1::ExportTracePartialSuccess;

    use super::*;

    fn client(port: u16) -> Client {
        let endpoint = format!("http://127.0.0.1:{port}");
        let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), endpoint)];
        Client::new(Options::read(&variables).unwrap().unwrap()).unwrap()
    }

    /// Accepts connections, and sends these answers on each before it is closed; returns how many requests
    /// each of them has brought.
    fn serve(connections: Vec<Vec<ExportTraceServiceResponse>>) -> (u16, JoinHandle<Vec<usize>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let one = move |answers: Vec<ExportTraceServiceResponse>| {
            let mut stream = listener.accept().unwrap().0;
            answers.iter().filter(|answer| converse(&mut stream, answer).is_some()).count()
        };
        (port, thread::spawn(move || connections.into_iter().map(one).collect()))
    }

    fn converse(stream: &mut TcpStream, answer: &ExportTraceServiceResponse) -> Option<()> {
        let (mut head, mut byte) = (Vec::new(), [0]);
        while !head.ends_with(b"\r\n\r\n") {
            stream.read_exact(&mut byte).ok()?;
            head.extend(byte);
        }
        let body = answer.encode_to_vec();
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len()).ok()?;
        stream.write_all(&body).ok()
    }

    #[tokio::test]
    async fn one_connection_is_used_until_the_collector_closes_it() {
        let partial = ExportTracePartialSuccess { rejected_spans: 3, error_message: "x".repeat(1_000) };
        let refusing = ExportTraceServiceResponse { partial_success: Some(partial) };
        let all = ExportTraceServiceResponse::default();
        let (port, serving) = serve(vec![vec![all.clone(), refusing, all.clone()], vec![all]]);
        let mut client = client(port);
        let mut rejected = Vec::new();
        for _ in 0..4 {
            rejected.push(client.send(&ExportTraceServiceRequest::default()).await.unwrap());
        }
        let reason = "x".repeat(REASON_CHARS_MAX);
        assert_eq!(rejected[1], Rejection { spans: 3, reason });
        assert!([0, 2, 3].into_iter().all(|n| rejected[n] == Rejection::default()), "{rejected:?}");
        assert_eq!(serving.join().unwrap(), [3, 1]);
    }
}
