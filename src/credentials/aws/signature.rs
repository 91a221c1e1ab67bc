//! AWS' signature, version 4, in the query of a URL.

use jiff::Timestamp;
use openssl::error::ErrorStack;
use openssl::hash::MessageDigest;
use openssl::pkey::PKey;
use openssl::sign::Signer;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use sha2::{Digest as _, Sha256};
use zeroize::Zeroizing;

use super::keys::Keys;
use crate::secret::Secret;

/// All but the unreserved characters of RFC 3986.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// A GET request whose URL is signed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request<'a> {
    /// Value of the `Host` header.
    pub(super) host: &'a str,
    pub(super) region: &'a str,
    /// Name of the service in the scope of the key.
    pub(super) service: &'a str,
    /// The query, names and values as they are.
    pub(super) query: &'a [(&'a str, &'a str)],
    /// Seconds for which the URL is valid.
    pub(super) seconds: u64,
}

/// Returns host, path and signed query, without the scheme.
pub(super) fn presign(request: &Request<'_>, keys: &Keys, now: Timestamp) -> Result<Secret, ErrorStack> {
    let (day, time) = (now.strftime("%Y%m%d").to_string(), now.strftime("%Y%m%dT%H%M%SZ").to_string());
    let scope = format!("{day}/{}/{}/aws4_request", request.region, request.service);
    let (credential, seconds) = (format!("{}/{scope}", keys.id), request.seconds.to_string());
    let mut query = request.query.to_vec();
    query.extend([
        ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
        ("X-Amz-Credential", credential.as_str()),
        ("X-Amz-Date", time.as_str()),
        ("X-Amz-Expires", seconds.as_str()),
        ("X-Amz-SignedHeaders", "host"),
    ]);
    query.extend(keys.session.as_ref().map(|session| ("X-Amz-Security-Token", session.expose())));
    query.sort_unstable();
    let encoded = |text| utf8_percent_encode(text, RESERVED).to_string();
    let pairs: Zeroizing<Vec<String>> = query
        .into_iter()
        .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
        .collect::<Vec<_>>()
        .into();
    let (query, host) = (Zeroizing::new(pairs.join("&")), request.host);
    let end = format!("\nhost:{host}\n\nhost\n{}", hex(&Sha256::digest(b"")));
    let canonical = Zeroizing::new(["GET\n/\n", &query, &end].concat());
    let text = format!("AWS4-HMAC-SHA256\n{time}\n{scope}\n{}", hex(&Sha256::digest(canonical.as_bytes())));
    let mut key = Zeroizing::new(["AWS4", keys.secret.expose()].concat().into_bytes());
    for part in [&day, request.region, request.service, "aws4_request"] {
        key = hmac(&key, part.as_bytes())?.into();
    }
    let signature = hex(&hmac(&key, text.as_bytes())?);
    Ok(Secret::new([host, "/?", &query, "&X-Amz-Signature=", &signature].concat()))
}

fn hmac(key: &[u8], text: &[u8]) -> Result<Vec<u8>, ErrorStack> {
    let key = PKey::hmac(key)?;
    Signer::new(MessageDigest::sha256(), &key)?.sign_oneshot_to_vec(text)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tokens in the tests of AWS' own libraries.
    const VECTORS: &str = include_str!("vectors.tsv");

    #[test]
    fn published_tokens_are_made_byte_for_byte() {
        for line in VECTORS.lines().skip(1) {
            let [host, region, user, id, secret, time, expected] = line.split('\t').collect::<Vec<_>>()[..]
            else {
                panic!("{line}");
            };
            let keys =
                Keys { id: id.to_owned(), secret: Secret::new(secret), session: None, expires_at: None };
            let query = [("Action", "connect"), ("DBUser", user)];
            let request = Request { host, region, service: "rds-db", query: &query, seconds: 900 };
            assert_eq!(presign(&request, &keys, time.parse().unwrap()).unwrap().expose(), expected);
        }
    }

    /// Query, session token, and the expected signature.
    type Case<'c> = (&'c [(&'c str, &'c str)], Option<&'c str>, &'c str);

    /// Signatures of AWS' signing test suite: `get-vanilla-query-order-key-case`, and the same with a session token.
    #[test]
    fn the_signing_test_suite_is_met() {
        let keys = |session: Option<&str>| Keys {
            id: "AKIDEXAMPLE".to_owned(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"),
            session: session.map(Secret::new),
            expires_at: None,
        };
        let session = "6e86291e8372ff2a2260956d9b8aae1d763fbf315fa00fa31553b73ebf194267";
        let cases: [Case<'_>; 2] = [
            (
                &[("Param2", "value2"), ("Param1", "value1")],
                None,
                "86012e2c9ad4d77369f5d81c11f75158aae4f895a085212cc6d3f923d300bed5",
            ),
            (&[], Some(session), "7ff2b50b376cb4d151970630573d6291dc128cc5c2a12ffb237f73cc53f67b6c"),
        ];
        for (query, session, signature) in cases {
            let (host, region, service) = ("example.amazonaws.com", "us-east-1", "service");
            let request = Request { host, region, service, query, seconds: 3600 };
            let now = "2015-08-30T12:36:00Z".parse().unwrap();
            let url = presign(&request, &keys(session), now).unwrap().expose().to_owned();
            assert!(url.ends_with(&format!("&X-Amz-Signature={signature}")), "{url}");
        }
    }

    #[test]
    fn a_session_token_is_signed_and_encoded() {
        let session = Some(Secret::new("a/b+c="));
        let keys = Keys { id: "akid".to_owned(), secret: Secret::new("skid"), session, expires_at: None };
        let request = Request { host: "h:5432", region: "r", service: "rds-db", query: &[], seconds: 900 };
        let url = presign(&request, &keys, Timestamp::UNIX_EPOCH).unwrap().expose().to_owned();
        assert!(
            url.contains("&X-Amz-Security-Token=a%2Fb%2Bc%3D&X-Amz-SignedHeaders=host&X-Amz-Signature="),
            "{url}"
        );
    }
}
