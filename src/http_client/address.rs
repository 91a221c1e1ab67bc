//! Addresses of HTTP servers.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::Uri;
use percent_encoding::percent_decode_str;

use crate::secret::Secret;

/// Address of an HTTP server, a registry or a proxy. `Display` shows no credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// True if it is `https`.
    pub tls: bool,
    /// The host's name or address, without brackets.
    pub host: String,
    /// The port; 443 or 80 when the URL names none.
    pub port: u16,
    /// Prefix of the paths of the interface, without `/` at its end.
    pub path: String,
    /// The credentials in the URL.
    pub user: Option<Credentials>,
}

/// Credentials of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// `user:password`, for HTTP's basic authentication.
    Basic(Secret),
    /// A bearer token.
    Bearer(Secret),
}

impl Credentials {
    /// Returns the value of the `Authorization` header.
    pub(crate) fn header(&self) -> String {
        match self {
            Self::Basic(user) => format!("Basic {}", STANDARD.encode(user.expose())),
            Self::Bearer(token) => format!("Bearer {}", token.expose()),
        }
    }
}

impl Address {
    /// Reads `http://[user:password@]host[:port][/path]`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let uri: Uri = text.trim().parse().ok()?;
        let tls = match uri.scheme_str()? {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let host = uri.host().filter(|host| !host.is_empty())?;
        let user = uri.authority()?.as_str().rsplit_once('@').map(|(user, _)| user);
        let user = match user {
            Some(user) => Some(Credentials::Basic(Secret::new(percent_decode_str(user).decode_utf8().ok()?))),
            None => None,
        };
        Some(Self {
            tls,
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port: uri.port_u16().unwrap_or(if tls { 443 } else { 80 }),
            path: uri.path().trim_end_matches('/').to_owned(),
            user,
        })
    }

    /// Returns host and port, as in a URL and in the `Host` header.
    pub(crate) fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}{}", if self.tls { "https" } else { "http" }, self.authority(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn urls_are_read_and_shown_without_their_secrets() {
        let cases = [
            ("http://registry:8081", "http://registry:8081", None),
            (" https://registry/ ", "https://registry:443", None),
            ("http://[::1]:8081/apis/ccompat/v7/", "http://[::1]:8081/apis/ccompat/v7", None),
            ("https://me:p%40ss@registry:1/x", "https://registry:1/x", Some("Basic bWU6cEBzcw==")),
        ];
        for (text, shown, authorization) in cases {
            let address = Address::parse(text).unwrap();
            assert_eq!(address.to_string(), shown);
            assert_eq!(address.user.as_ref().map(Credentials::header).as_deref(), authorization);
        }
        for text in ["", "registry:8081", "mock://test", "http://", "/path", "ftp://registry"] {
            assert_eq!(Address::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String) {
            if let Some(address) = Address::parse(&text) {
                prop_assert!(!address.host.is_empty());
            }
        }

        #[test]
        fn what_is_shown_reads_back(tls: bool, host in "[a-z]{1,8}(\\.[a-z]{1,4})?", port: u16, path in "(/[a-z0-9]{1,5}){0,3}") {
            let address = Address { tls, host, port, path, user: None };
            prop_assert_eq!(Address::parse(&address.to_string()), Some(address));
        }
    }
}
