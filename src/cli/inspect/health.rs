//! `outboxd health`.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use crate::cli::args::HealthArgs;
use crate::cli::print_message;
use crate::error::Exit;
use crate::http;

const TIMEOUT: Duration = Duration::from_secs(3);
const READY: u16 = 200;

/// Exits 0 when the relay is ready, 1 when it is not or does not answer.
pub(in crate::cli) fn health(args: &HealthArgs) -> Exit {
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            print_message(&format!("error: the runtime cannot be started: {error}"));
            return Exit::Failed;
        }
    };
    match runtime.block_on(http::probe(reachable(args.http), "/readyz", TIMEOUT)) {
        Ok((READY, _)) => Exit::Ok,
        Ok((_, body)) => {
            print_message(&body);
            Exit::Failed
        }
        Err(error) => {
            print_message(&format!("error: {} does not answer: {error}", args.http));
            Exit::Failed
        }
    }
}

/// Returns an address to request. The relay may listen on every address; then it is loopback.
const fn reachable(addr: SocketAddr) -> SocketAddr {
    match addr.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => {
            SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), addr.port())
        }
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::new(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), addr.port())
        }
        _ => addr,
    }
}
