//! The key of a Google service account: a signed assertion is given for a token (RFC 7523).

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use serde_json::json;
use zeroize::Zeroizing;

use super::endpoint::Endpoint;
use super::error::IdentityError;
use crate::credentials::source::Credential;
use crate::credentials::wiped_json::WipedJson;
use crate::secret::Secret;

const TOKEN_URL: &str = "https://oauth2.googleapis.com/token";
/// Life of an assertion. Google accepts an hour at most.
const LIFE_SECONDS: u64 = 600;

/// The key of a service account, of a file in JSON.
#[derive(Debug)]
pub(super) struct ServiceAccount {
    pub(super) email: String,
    key: Secret,
    key_id: Option<String>,
    url: String,
    path: String,
}

impl ServiceAccount {
    /// Reads the text of the file at `path`.
    pub(super) fn parse(text: &str, path: &str) -> Result<Self, IdentityError> {
        let invalid = || IdentityError::NotAKey { path: path.to_owned() };
        let object = WipedJson::parse(text).ok_or_else(invalid)?;
        let get = |name: &str| object.get(name).and_then(|value| value.as_str());
        if let Some(other) = get("type").filter(|kind| *kind != "service_account") {
            return Err(IdentityError::Unsupported { setting: format!("type {other} in {path}") });
        }
        let (email, key) = get("client_email").zip(get("private_key")).ok_or_else(invalid)?;
        Ok(Self {
            email: email.to_owned(),
            key: Secret::new(key),
            key_id: get("private_key_id").map(str::to_owned),
            url: get("token_uri").unwrap_or(TOKEN_URL).to_owned(),
            path: path.to_owned(),
        })
    }

    /// Asks for a token of a scope.
    pub(super) async fn token(&self, scope: &str, now: SystemTime) -> Result<Credential, IdentityError> {
        let assertion = self.assertion(scope, now);
        let assertion =
            assertion.map_err(|source| IdentityError::Signature { path: self.path.clone(), source })?;
        let form = [
            ("grant_type", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
            ("assertion", assertion.as_str()),
        ];
        Endpoint { service: "Google", url: &self.url }.post(&form, &[]).await
    }

    fn assertion(&self, scope: &str, now: SystemTime) -> Result<Zeroizing<String>, ErrorStack> {
        let now = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let header = json!({ "alg": "RS256", "typ": "JWT", "kid": self.key_id });
        let end = now.saturating_add(LIFE_SECONDS);
        let claims = json!({ "iss": self.email, "scope": scope, "aud": self.url, "iat": now, "exp": end });
        let [header, claims] = [header, claims].map(|part| BASE64_URL_SAFE_NO_PAD.encode(part.to_string()));
        let signed = format!("{header}.{claims}");
        let key = PKey::private_key_from_pem(self.key.expose().as_bytes())?;
        let signature = Signer::new(MessageDigest::sha256(), &key)?.sign_oneshot_to_vec(signed.as_bytes())?;
        Ok(Zeroizing::new(format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))))
    }
}

#[cfg(test)]
mod tests {
    use openssl::rsa::Rsa;
    use openssl::sign::Verifier;
    use serde_json::Value;

    use super::*;
    use crate::http_client::test_server::{answer, serve};

    #[test]
    fn an_assertion_is_signed_with_the_key_and_given_for_a_token() {
        let (port, serving) = serve(&answer("200 OK", r#"{"access_token":"t","expires_in":3599}"#), None);
        let (key, url) =
            (PKey::from_rsa(Rsa::generate(2048).unwrap()).unwrap(), format!("http://127.0.0.1:{port}/token"));
        let pem = String::from_utf8(key.private_key_to_pem_pkcs8().unwrap()).unwrap();
        let file = json!({ "type": "service_account", "client_email": "e@p", "private_key": pem, "private_key_id": "k", "token_uri": url });
        let account = ServiceAccount::parse(&file.to_string(), "key.json").unwrap();
        assert!(!format!("{account:?}").contains("PRIVATE"), "{account:?}");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let now = UNIX_EPOCH + std::time::Duration::from_secs(1_000);
        assert_eq!(runtime.block_on(account.token("a b", now)).unwrap().value, Secret::new("t"));

        let asked = serving.join().unwrap();
        let (_, body) = asked.split_once("\r\n\r\n").unwrap();
        let begin = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
        let assertion = body.strip_prefix(begin).unwrap_or_else(|| panic!("{body}"));
        let (signed, signature) = assertion.rsplit_once('.').unwrap();
        let decode = |text: &str| BASE64_URL_SAFE_NO_PAD.decode(text).unwrap();
        let mut verifier = Verifier::new(MessageDigest::sha256(), &key).unwrap();
        assert!(verifier.verify_oneshot(&decode(signature), signed.as_bytes()).unwrap());
        let [header, claims] = [0, 1].map(|part| {
            serde_json::from_slice::<Value>(&decode(signed.split('.').nth(part).unwrap())).unwrap()
        });
        assert_eq!(header, json!({ "alg": "RS256", "typ": "JWT", "kid": "k" }));
        assert_eq!(claims, json!({ "iss": "e@p", "scope": "a b", "aud": url, "iat": 1_000, "exp": 1_600 }));
    }
}
