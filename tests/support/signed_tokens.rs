use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use openssl::hash::MessageDigest;
use openssl::pkey::{PKey, Private};
use openssl::rsa::Rsa;
use openssl::sign::Signer;
use serde_json::{Value, json};

use super::watcher::Watcher;

/// The audience that the broker expects.
pub(crate) const AUDIENCE: &str = "kafka";

/// An issuer of signed tokens, and the file with its public key that a broker validates them with.
#[derive(Debug)]
pub(crate) struct KeySet {
    key: PKey<Private>,
    folder: Watcher,
}

impl KeySet {
    pub(crate) fn new() -> Self {
        let rsa = Rsa::generate(2048).unwrap();
        let text = |number: &openssl::bn::BigNumRef| BASE64_URL_SAFE_NO_PAD.encode(number.to_vec());
        let public = json!({
            "kty": "RSA", "kid": "1", "alg": "RS256", "use": "sig", "n": text(rsa.n()), "e": text(rsa.e()),
        });
        let (key, folder) = (PKey::from_rsa(rsa).unwrap(), Watcher::new("outboxd-tokens-"));
        folder.replace("keys.json", &json!({ "keys": [public] }).to_string());
        Self { key, folder }
    }

    /// Returns the `sasl.oauthbearer.jwks.endpoint.url` of the broker.
    pub(crate) fn url(&self) -> String {
        format!("file://{}", self.folder.path("keys.json"))
    }

    /// Makes a token of a subject with this lifetime.
    pub(crate) fn token(&self, subject: &str, lifetime: Duration) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let head = json!({ "alg": "RS256", "kid": "1" });
        let claims = json!({
            "sub": subject, "aud": AUDIENCE, "iat": now.as_secs(), "exp": (now + lifetime).as_secs(), "scope": [],
        });
        let encoded = |part: &Value| BASE64_URL_SAFE_NO_PAD.encode(part.to_string());
        let signed = format!("{}.{}", encoded(&head), encoded(&claims));
        let mut signer = Signer::new(MessageDigest::sha256(), &self.key).unwrap();
        let signature = signer.sign_oneshot_to_vec(signed.as_bytes()).unwrap();
        format!("{signed}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))
    }
}
