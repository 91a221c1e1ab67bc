//! A probe of a status port.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use hyper::{Request, Response, header};
use tokio::time;

use crate::http_client::{Address, USER_AGENT, connect, exchange};

/// The longest answer that is read.
const ANSWER_BYTES_MAX: usize = 1024 * 1024;

/// Requests `path` from a status port, as a container's health check does, and returns the status code and
/// the body. An address that means every interface is requested on loopback.
///
/// # Errors
///
/// When there is no answer within `timeout`, or it is not HTTP.
pub(crate) async fn probe(addr: SocketAddr, path: &str, timeout: Duration) -> io::Result<(u16, String)> {
    match time::timeout(timeout, ask(reachable(addr), path, timeout)).await {
        Ok(answer) => answer,
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("{addr} does not answer"))),
    }
}

async fn ask(addr: SocketAddr, path: &str, timeout: Duration) -> io::Result<(u16, String)> {
    let request = Request::get(path)
        .header(header::HOST, addr.to_string())
        .header(header::USER_AGENT, USER_AGENT)
        .body(String::new());
    let no_path = || io::Error::new(io::ErrorKind::InvalidInput, format!("{path:?} is not a path"));
    let request = request.ok().filter(|_| path.starts_with('/')).ok_or_else(no_path)?;
    let address = Address {
        tls: false,
        host: addr.ip().to_string(),
        port: addr.port(),
        path: String::new(),
        user: None,
    };
    exchange(connect(&address).await?, request, timeout, answer).await
}

pub(super) async fn answer(response: Response<Incoming>) -> io::Result<(u16, String)> {
    let status = response.status().as_u16();
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(io::Error::other)?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}

fn reachable(addr: SocketAddr) -> SocketAddr {
    let ip = match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, addr.port())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http_client::test_server;

    fn asked(addr: SocketAddr, path: &str) -> io::Result<(u16, String)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(probe(addr, path, Duration::from_secs(5)))
    }

    #[test]
    fn answers_are_read() {
        let cases = [
            (test_server::answer("503 Service Unavailable", "{}"), Some((503, "{}"))),
            ("HTTP/1.0 200 OK\r\n\r\nto the end".to_owned(), Some((200, "to the end"))),
            ("SSH-2.0-x\r\n\r\n".to_owned(), None),
            ("HTTP/1.1 ok\r\n\r\n".to_owned(), None),
            (String::new(), None),
        ];
        for (given, expected) in cases {
            let (port, serving) = test_server::serve(&given, None);
            let found = asked(SocketAddr::from(([127, 0, 0, 1], port)), "/readyz").ok();
            assert_eq!(found, expected.map(|(status, body)| (status, body.to_owned())), "{given}");
            assert!(serving.join().unwrap().starts_with("GET /readyz HTTP/1.1\r\n"));
        }
    }

    #[test]
    fn what_is_no_path_is_not_asked_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        for path in ["/a b", "/a\r\nx: y", "readyz", ""] {
            let error = asked(listener.local_addr().unwrap(), path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{path:?}");
        }
    }

    #[test]
    fn every_interface_is_asked_on_loopback() {
        let cases = [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("10.0.0.1:1", "10.0.0.1:1")];
        for (addr, expected) in cases {
            assert_eq!(reachable(addr.parse().unwrap()), expected.parse().unwrap());
        }
    }
}
