//! Proxies of the environment.

use std::{env, io};

use hyper::client::conn::http1;
use hyper::{Method, Request, header, upgrade};
use hyper_util::rt::TokioIo;

use super::FetchError;
use crate::http_client::{Address, Transport, USER_AGENT};

/// The first one that is set counts.
const PROXY: [&str; 4] = ["https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"];
const NO_PROXY: [&str; 2] = ["no_proxy", "NO_PROXY"];

/// Variables of the environment about proxies for https.
#[derive(Default)]
pub(super) struct Proxies {
    /// The variable and its value, which may hold a password.
    proxy: Option<(&'static str, String)>,
    /// Hosts to which no proxy leads, with commas between them.
    exceptions: String,
}

impl Proxies {
    pub(super) fn of_environment() -> Self {
        Self::read(|name| env::var(name).ok())
    }

    pub(super) fn read(get: impl Fn(&str) -> Option<String>) -> Self {
        let set =
            |name: &&'static str| get(name).filter(|value| !value.is_empty()).map(|value| (*name, value));
        let exceptions = NO_PROXY.iter().find_map(set).map(|(_, value)| value).unwrap_or_default();
        Self { proxy: PROXY.iter().find_map(set), exceptions }
    }

    /// Returns the proxy on the way to an address. There is none for `http`.
    pub(super) fn towards(&self, target: &Address) -> Result<Option<Address>, FetchError> {
        let Some((variable, value)) = &self.proxy else { return Ok(None) };
        if !target.tls || self.is_exception(&target.host) {
            return Ok(None);
        }
        let url = if value.contains("://") { value.clone() } else { format!("http://{value}") };
        Address::parse(&url).map(Some).ok_or(FetchError::Proxy { variable })
    }

    /// Returns whether a host is an exception: `*`, the host itself, or a domain that it is in.
    fn is_exception(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let mut names = self.exceptions.split(',').map(|name| name.trim().to_ascii_lowercase());
        names.any(|name| {
            let domain = name.trim_start_matches("*.").trim_start_matches('.');
            let inside = || host.strip_suffix(domain).is_some_and(|rest| rest.ends_with('.'));
            name == "*" || (!domain.is_empty() && (host == domain || inside()))
        })
    }
}

/// Lets the proxy at the other end of a connection pass it on to an address.
pub(super) async fn tunnel(
    transport: Box<dyn Transport>,
    proxy: &Address,
    target: &Address,
) -> io::Result<Box<dyn Transport>> {
    let request = request(proxy, target).map_err(io::Error::other)?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(transport)).await.map_err(io::Error::other)?;
    let opening = async {
        let response = sender.send_request(request).await.map_err(io::Error::other)?;
        if !response.status().is_success() {
            let status = response.status().as_u16();
            return Err(io::Error::other(format!("the proxy at {proxy} refuses with HTTP status {status}")));
        }
        upgrade::on(response).await.map_err(io::Error::other)
    };
    let connection = async { connection.with_upgrades().await.map_err(io::Error::other) };
    let (upgraded, ()) = tokio::try_join!(opening, connection)?;
    Ok(Box::new(TokioIo::new(upgraded)))
}

fn request(proxy: &Address, target: &Address) -> Result<Request<String>, hyper::http::Error> {
    let mut builder = Request::builder()
        .method(Method::CONNECT)
        .uri(target.authority())
        .header(header::HOST, target.authority())
        .header(header::USER_AGENT, USER_AGENT);
    if let Some(user) = &proxy.user {
        builder = builder.header(header::PROXY_AUTHORIZATION, user.header());
    }
    builder.body(String::new())
}

#[cfg(test)]
mod tests {
    use super::*;

    type Case = (&'static [(&'static str, &'static str)], Option<&'static str>);

    #[test]
    fn the_environment_chooses_the_proxy() {
        let cases: [Case; 9] = [
            (&[], None),
            (&[("https_proxy", "http://proxy:3128")], Some("http://proxy:3128")),
            (&[("HTTPS_PROXY", "me:secret@proxy:3128")], Some("http://proxy:3128")),
            (&[("https_proxy", ""), ("ALL_PROXY", "https://proxy")], Some("https://proxy:443")),
            (&[("http_proxy", "http://proxy:3128")], None),
            (&[("https_proxy", "http://proxy"), ("no_proxy", "a, .maven.ORG")], None),
            (&[("https_proxy", "http://proxy"), ("NO_PROXY", "repo1.maven.org")], None),
            (&[("https_proxy", "http://proxy"), ("no_proxy", "*")], None),
            (&[("https_proxy", "http://proxy"), ("no_proxy", ",aven.org,org.x")], Some("http://proxy:80")),
        ];
        let target = Address::parse("https://repo1.maven.org").unwrap();
        for (environment, expected) in cases {
            let get = |name: &str| Some(environment.iter().find(|(set, _)| *set == name)?.1.to_owned());
            let found = Proxies::read(get).towards(&target).unwrap();
            assert_eq!(found.map(|proxy| proxy.to_string()).as_deref(), expected, "{environment:?}");
        }
    }

    #[test]
    fn a_proxy_that_we_cannot_use_is_reported_without_its_password() {
        let proxies = Proxies::read(|name| (name == "ALL_PROXY").then(|| "socks5://me:secret@proxy".into()));
        let error = proxies.towards(&Address::parse("https://repo1.maven.org").unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "ALL_PROXY must name an HTTP proxy, as http://host:port");
        assert!(proxies.towards(&Address::parse("http://repo1.maven.org").unwrap()).unwrap().is_none());
    }
}
