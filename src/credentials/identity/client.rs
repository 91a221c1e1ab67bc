//! OAuth 2.0: tokens for the name and secret of a client (RFC 6749, section 4.4).

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use zeroize::Zeroizing;

use super::endpoint::Endpoint;
use super::error::IdentityError;
use crate::credentials::source::Credential;
use crate::secret::Secret;

/// A client that an identity provider knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClientCredentials {
    /// URL of the token endpoint.
    pub(crate) endpoint: String,
    /// Name of the client.
    pub(crate) id: String,
    /// Its secret.
    pub(crate) secret: Secret,
    /// Scopes, separated by spaces.
    pub(crate) scope: Option<String>,
}

impl ClientCredentials {
    /// Asks for a token. Name and secret are sent as HTTP's basic authentication, as by Kafka's clients.
    pub(super) async fn token(&self) -> Result<Credential, IdentityError> {
        let login = Zeroizing::new([self.id.as_str(), ":", self.secret.expose()].concat());
        let login = Zeroizing::new(["Basic ", &BASE64_STANDARD.encode(login.as_bytes())].concat());
        let scope = self.scope.as_deref().map(|scope| ("scope", scope));
        let form: Vec<_> = [("grant_type", "client_credentials")].into_iter().chain(scope).collect();
        let endpoint = Endpoint { service: "the identity provider", url: &self.endpoint };
        endpoint.post(&form, &[("Authorization", login.as_str())]).await
    }

    pub(super) fn description(&self) -> String {
        format!("a token of {} for client {:?}", self.endpoint, self.id)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::chain;
    use crate::http_client::test_server::{answer, serve};

    /// Asks an endpoint that answers with this.
    fn ask(status: &str, body: &str) -> (Result<Credential, IdentityError>, String) {
        let (port, serving) = serve(&answer(status, body), None);
        let client = ClientCredentials {
            endpoint: format!("http://127.0.0.1:{port}/oauth2/token?x=1"),
            id: "registry-client".to_owned(),
            secret: Secret::new("canary"),
            scope: Some("a b/.default".to_owned()),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        (runtime.block_on(client.token()), serving.join().unwrap())
    }

    #[test]
    fn a_client_gets_a_token_for_its_secret() {
        let (token, asked) = ask("200 OK", r#"{"access_token":"t","token_type":"Bearer","expires_in":300}"#);
        let token = token.unwrap();
        assert_eq!(token.value, Secret::new("t"));
        let left = token.expires_at.unwrap().duration_since(std::time::SystemTime::now()).unwrap();
        assert!(left <= Duration::from_secs(300) && left > Duration::from_secs(240), "{left:?}");
        let (head, body) = asked.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("POST /oauth2/token?x=1 HTTP/1.1\r\n"), "{head}");
        let lower = head.to_lowercase();
        assert!(lower.contains("content-type: application/x-www-form-urlencoded"), "{head}");
        // registry-client:canary
        assert!(head.contains("Basic cmVnaXN0cnktY2xpZW50OmNhbmFyeQ=="), "{head}");
        assert_eq!(body, "grant_type=client_credentials&scope=a%20b%2F.default");
    }

    #[test]
    fn a_token_that_names_its_own_end_needs_no_expiry_beside_it() {
        // {"exp":4102444800}
        let (token, _) = ask("200 OK", r#"{"access_token":"e30.eyJleHAiOjQxMDI0NDQ4MDB9.c2ln"}"#);
        let end = std::time::UNIX_EPOCH + Duration::from_secs(4_102_444_800);
        assert_eq!(token.unwrap().expires_at, Some(end));
    }

    #[test]
    fn a_refusal_is_reported_in_the_providers_words() {
        let cases = [
            (
                "401 Unauthorized",
                r#"{"error":"invalid_client","error_description":"unknown\r\nclient"}"#,
                "answers 401: invalid_client: unknown client",
            ),
            (
                "400 Bad Request",
                r#"{"error":{"code":"x","message":"no identity"}}"#,
                "answers 400: x: no identity",
            ),
            ("502 Bad Gateway", "<html>canary</html>", "answers 502"),
            ("200 OK", "canary", "the answer is not valid JSON"),
            (
                "200 OK",
                r#"{"id_token":"canary"}"#,
                "the JSON has no text \"password\", \"token\" or \"access_token\"",
            ),
        ];
        for (status, body, expected) in cases {
            let told = chain(&ask(status, body).0.unwrap_err());
            assert!(told.ends_with(expected), "{told}");
            assert!(!told.contains("canary"), "{told}");
        }
    }
}
