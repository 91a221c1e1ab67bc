use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time;

/// The longest answer that is read.
const ANSWER_BYTES_MAX: u64 = 1024 * 1024;

/// Asks a status port for `path`, as a container's health check does: the status code and the body. An address that
/// means every interface is asked on loopback.
///
/// # Errors
/// When nobody answers within `timeout`, or when what comes back is not HTTP.
pub async fn probe(addr: SocketAddr, path: &str, timeout: Duration) -> io::Result<(u16, String)> {
    match time::timeout(timeout, ask(reachable(addr), path)).await {
        Ok(answer) => parse(&answer?),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, format!("{addr} does not answer"))),
    }
}

async fn ask(addr: SocketAddr, path: &str) -> io::Result<Vec<u8>> {
    if !path.starts_with('/') || path.contains(|c: char| c.is_control() || c == ' ') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("{path:?} is not a path")));
    }
    let mut stream = TcpStream::connect(addr).await?;
    // HTTP/1.0: the answer ends where the connection does, and is never in chunks.
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: {addr}\r\n\r\n").as_bytes()).await?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await?;
    Ok(answer)
}

fn parse(answer: &[u8]) -> io::Result<(u16, String)> {
    let text = String::from_utf8_lossy(answer);
    let parsed = text.split_once("\r\n\r\n").and_then(|(head, body)| {
        let mut words = head.lines().next()?.split(' ');
        words.next().filter(|version| version.starts_with("HTTP/1."))?;
        Some((words.next()?.parse().ok()?, body.to_owned()))
    });
    parsed.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "the answer is not HTTP"))
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
    use proptest::prelude::*;

    #[test]
    fn answers_are_read() {
        let answer = parse(b"HTTP/1.0 503 Service Unavailable\r\ncontent-length: 2\r\n\r\n{}").unwrap();
        assert_eq!(answer, (503, "{}".into()));
        for wrong in
            ["", "SSH-2.0-x\r\n\r\n", "HTTP/1.1 ok\r\n\r\n", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 99999\r\n\r\n"]
        {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_interface_is_asked_on_loopback() {
        let cases = [("0.0.0.0:1", "127.0.0.1:1"), ("[::]:1", "[::1]:1"), ("10.0.0.1:1", "10.0.0.1:1")];
        for (addr, expected) in cases {
            assert_eq!(reachable(addr.parse().unwrap()), expected.parse().unwrap());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(answer: Vec<u8>) {
            drop(parse(&answer));
        }
    }
}
