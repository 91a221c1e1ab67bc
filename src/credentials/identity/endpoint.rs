//! One request for a token, and its answer.

use std::io;
use std::time::SystemTime;

use hyper::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use zeroize::Zeroizing;

use super::error::IdentityError;
use crate::credentials::http::{self, Answer};
use crate::credentials::source::Credential;
use crate::credentials::wiped_json::WipedJson;
use crate::credentials::{answer, jwt, mask};

/// All but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A URL that issues tokens, of a service that errors name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Endpoint<'a> {
    pub(super) service: &'static str,
    pub(super) url: &'a str,
}

impl Endpoint<'_> {
    /// Posts a form.
    pub(super) async fn post(
        self,
        form: &[(&str, &str)],
        headers: &[(&str, &str)],
    ) -> Result<Credential, IdentityError> {
        let body = encoded(form);
        let length = body.len().to_string();
        let mut all = vec![
            ("Content-Type", "application/x-www-form-urlencoded"),
            ("Content-Length", length.as_str()),
            ("Accept", "application/json"),
        ];
        all.extend(headers);
        self.read(http::ask(Method::POST, self.url, &all, body).await)
    }

    /// Asks with the URL's query.
    pub(super) async fn get(self, headers: &[(&str, &str)]) -> Result<Credential, IdentityError> {
        self.read(http::ask(Method::GET, self.url, headers, String::new()).await)
    }

    /// Asks for a text instead of a token.
    pub(super) async fn get_text(self, headers: &[(&str, &str)]) -> Result<Zeroizing<String>, IdentityError> {
        self.accept(http::ask(Method::GET, self.url, headers, String::new()).await)
    }

    fn accept(self, answer: io::Result<Answer>) -> Result<Zeroizing<String>, IdentityError> {
        let (service, url) = (self.service, || self.url.to_owned());
        let answer = answer.map_err(|source| IdentityError::Silent { service, url: url(), source })?;
        if answer.status == 200 {
            return Ok(answer.body);
        }
        let (status, reason) = (answer.status, words(&answer.body));
        Err(IdentityError::Refused { service, url: url(), status, reason })
    }

    fn read(self, answer: io::Result<Answer>) -> Result<Credential, IdentityError> {
        let body = self.accept(answer)?;
        let (service, url) = (self.service, || self.url.to_owned());
        let read = answer::token(&body, SystemTime::now());
        let mut token = read.map_err(|reason| IdentityError::Answer { service, url: url(), reason })?;
        if token.expires_at.is_none() {
            token.expires_at = jwt::claims(token.value.expose()).and_then(|claims| claims.expires_at);
        }
        Ok(token)
    }
}

/// Returns the text of a form, whose names need no encoding.
fn encoded(form: &[(&str, &str)]) -> String {
    let pair = |(name, value): &(&str, &str)| format!("{name}={}", utf8_percent_encode(value, RESERVED));
    let pairs: Zeroizing<Vec<String>> = Zeroizing::new(form.iter().map(pair).collect());
    pairs.join("&")
}

/// Returns the provider's own words with a colon before them: OAuth's error and its description, or Azure's code and message.
fn words(body: &str) -> String {
    let Some(object) = WipedJson::parse(body) else { return String::new() };
    let error = object.get("error");
    let inside = |name: &str| error.and_then(|error| error.get(name)?.as_str());
    let code = error.and_then(|error| error.as_str()).or_else(|| inside("code"));
    let description =
        object.get("error_description").and_then(|text| text.as_str()).or_else(|| inside("message"));
    let said =
        code.into_iter().chain(description).map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    said.flat_map(|text| mask::lines(&text, None)).map(|line| format!(": {line}")).collect()
}
