//! Unused ports.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

/// Below what Linux (32768) and macOS (49152) hand to outgoing connections: a client that retries against a stopped
/// server can otherwise be given that server's port and connect to itself, and the server cannot come back.
const RANGE: Range<u16> = 20_000..32_000;
const ATTEMPT_COUNT_MAX: usize = 100;

/// The next port to try. It begins at random, so that processes do not collide, and each port comes once in a
/// round, so that none is returned that another caller got a moment ago and does not listen on yet.
static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| AtomicU16::new(fastrand::u16(..)));

/// Returns a TCP port of 127.0.0.1 on which nothing listens at present.
///
/// # Errors
/// When a hundred ports in a row were taken.
pub fn unused_port() -> io::Result<u16> {
    let mut attempts = (0..ATTEMPT_COUNT_MAX).map(|_| bind(next()));
    let free = attempts.find_map(Result::ok);
    free.ok_or_else(|| io::Error::new(io::ErrorKind::AddrInUse, "no free port on 127.0.0.1"))
}

fn next() -> u16 {
    RANGE.start + NEXT.fetch_add(1, Ordering::Relaxed) % (RANGE.end - RANGE.start)
}

fn bind(port: u16) -> io::Result<u16> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).map(|_| port)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_port_in_use_is_refused_and_a_free_one_found() {
        let port = unused_port().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
        bind(port).unwrap_err();
        drop(listener);
        bind(port).unwrap();
    }

    #[test]
    fn a_port_is_not_given_out_twice_in_a_row() {
        let ports: BTreeSet<u16> = (0..500).map(|_| unused_port().unwrap()).collect();
        assert_eq!(ports.len(), 500);
    }
}
