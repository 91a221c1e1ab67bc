//! Claims of a JSON Web Token. outboxd does not check its signature: the servers do.

use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::Value;

/// Claims that a client needs.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Claims {
    /// `sub`.
    pub(super) subject: Option<String>,
    /// `exp`.
    pub(super) expires_at: Option<SystemTime>,
}

/// Returns the claims of a token; None for a token of another kind.
pub(super) fn claims(token: &str) -> Option<Claims> {
    let mut parts = token.split('.');
    let (_, payload, _) = (parts.next()?, parts.next()?, parts.next()?);
    let payload = BASE64_URL_SAFE_NO_PAD.decode(payload.trim_end_matches('=')).ok()?;
    let payload: Value = serde_json::from_slice(&payload).ok()?;
    let object = payload.as_object()?;
    // RFC 7519 allows fractions of a second.
    let seconds = object.get("exp").and_then(|exp| exp.as_u64().or_else(|| whole(exp.as_f64()?)));
    let since_epoch = |seconds| SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
    Some(Claims {
        subject: object.get("sub").and_then(Value::as_str).map(str::to_owned),
        expires_at: seconds.and_then(since_epoch),
    })
}

/// Returns the seconds without their fraction.
fn whole(seconds: f64) -> Option<u64> {
    Duration::try_from_secs_f64(seconds).ok().map(|duration| duration.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", BASE64_URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn the_subject_and_the_expiry_are_read() {
        let at = |seconds| Some(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        let cases = [
            (token(r#"{"sub":"relay","exp":900}"#), Some((Some("relay"), at(900)))),
            (token(r#"{"sub":"relay","exp":900.75}"#), Some((Some("relay"), at(900)))),
            (token(r#"{"exp":"soon","sub":7}"#), Some((None, None))),
            (token(r#"{"exp":-1}"#), Some((None, None))),
            (token("[]"), None),
            ("aHR0cHM6Ly9rYWZrYQ".to_owned(), None),
            ("a.b.c".to_owned(), None),
        ];
        for (token, expected) in cases {
            let expected = expected
                .map(|(subject, expires_at)| Claims { subject: subject.map(str::to_owned), expires_at });
            assert_eq!(claims(&token), expected, "{token}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String, json in "\\{\"exp\":[-0-9.eE]{0,20}\\}") {
            drop(claims(&text));
            drop(claims(&token(&json)));
        }
    }
}
