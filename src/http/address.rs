//! Addresses to listen on.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// A text that is no address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an address to listen on: give 8080 (this machine only), 0.0.0.0:8080 or [::1]:8080")]
pub(crate) struct InvalidAddress(String);

/// Reads `8080`, `:8080`, `localhost:8080`, `0.0.0.0:8080` or `[::1]:80`. Without a host it is loopback: to
/// make the port reachable from elsewhere, name one.
///
/// # Errors
/// When the text is none of these. Other host names are not resolved.
pub(crate) fn parse_addr(text: &str) -> Result<SocketAddr, InvalidAddress> {
    let port = text.strip_prefix("localhost:").or_else(|| text.strip_prefix(':')).unwrap_or(text);
    if !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit()) {
        let port = port.parse().map_err(|_| InvalidAddress(text.to_owned()))?;
        return Ok(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    }
    text.parse().map_err(|_| InvalidAddress(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn addresses_are_loopback_unless_a_host_is_given() {
        let cases = [
            ("8080", "127.0.0.1:8080"),
            (":8080", "127.0.0.1:8080"),
            ("localhost:8080", "127.0.0.1:8080"),
            ("0", "127.0.0.1:0"),
            ("0.0.0.0:8080", "0.0.0.0:8080"),
            ("[::1]:80", "[::1]:80"),
            ("[::]:80", "[::]:80"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_addr(text), Ok(expected.parse().unwrap()), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let wrong =
            ["", ":", "http", "65536", ":-1", "+80", "1.2.3.4", "::1", "::80", "db:8080", "localhost", " 80"];
        for text in wrong {
            assert_eq!(parse_addr(text), Err(InvalidAddress(text.into())), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_address_is_read_again(ip: IpAddr, port: u16) {
            let addr = SocketAddr::new(ip, port);
            prop_assert_eq!(parse_addr(&addr.to_string()), Ok(addr));
        }

        #[test]
        fn any_text_is_read_or_refused(text: String) {
            drop(parse_addr(&text));
        }
    }
}
