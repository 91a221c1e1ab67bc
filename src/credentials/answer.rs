//! Output of a command: the value alone, or JSON with an expiry.

use std::time::{Duration, SystemTime};

use serde_json::Value;

use super::source::Credential;
use super::wiped_json::WipedJson;
use crate::secret::Secret;

/// Names under which tools print the value: outboxd's own, of Kubernetes and OAuth 2.0, of Azure's command.
const VALUES: [&str; 4] = ["password", "token", "access_token", "accessToken"];
/// Names of a time in RFC 3339: outboxd's own and Kubernetes', AWS'.
const TIMES: [&str; 3] = ["expiration", "expirationTimestamp", "Expiration"];

/// Reads an answer, or returns the reason why it is none.
pub(super) fn parse(text: &str, now: SystemTime) -> Result<Credential, &'static str> {
    let text = text.strip_suffix('\n').unwrap_or(text);
    let text = text.strip_suffix('\r').unwrap_or(text);
    if text.trim_start().starts_with('{') {
        let object = WipedJson::parse(text).ok_or("the answer is not valid JSON")?;
        // Kubernetes' ExecCredential has both in its status.
        return of_object(object.get("status").unwrap_or(&object), now);
    }
    if text.is_empty() {
        return Err("the answer is empty");
    }
    if text.contains(['\n', '\r', '\0']) {
        return Err("the answer has more than one line and is not JSON");
    }
    Ok(Credential { value: Secret::new(text), expires_at: None })
}

/// Reads the answer of a service, which is JSON.
pub(super) fn token(text: &str, now: SystemTime) -> Result<Credential, &'static str> {
    if text.trim_start().starts_with('{') { parse(text, now) } else { Err("the answer is not valid JSON") }
}

fn of_object(object: &Value, now: SystemTime) -> Result<Credential, &'static str> {
    let text = |name: &&str| object.get(*name).and_then(Value::as_str);
    let value = VALUES.iter().find_map(text).filter(|value| !value.is_empty());
    let value = value.ok_or("the JSON has no text \"password\", \"token\" or \"access_token\"")?;
    let expires_at = match TIMES.iter().find_map(text) {
        Some(time) => Some(instant(time).ok_or("the expiration is not a time of RFC 3339")?),
        None => by_seconds(object, now)?,
    };
    Ok(Credential { value: Secret::new(value), expires_at })
}

/// Returns the expiry in seconds: since 1970, or from now on. Without a readable one the credential would be used for ever.
fn by_seconds(object: &Value, now: SystemTime) -> Result<Option<SystemTime>, &'static str> {
    let member = |name: &str| object.get(name).filter(|value| !value.is_null());
    let (on, within) = (member("expires_on"), member("expires_in"));
    let expires_at = seconds(on)
        .and_then(|since_epoch| SystemTime::UNIX_EPOCH.checked_add(since_epoch))
        .or_else(|| seconds(within).and_then(|left| now.checked_add(left)));
    match expires_at {
        None if on.or(within).is_some() => Err("the expiry is not a number of seconds"),
        expires_at => Ok(expires_at),
    }
}

/// Reads a time of RFC 3339.
pub(super) fn instant(text: &str) -> Option<SystemTime> {
    text.parse::<jiff::Timestamp>().ok()?.try_into().ok()
}

/// Reads a number of seconds, which some tools write as text.
fn seconds(value: Option<&Value>) -> Option<Duration> {
    let value = value?;
    let number = value.as_u64().or_else(|| value.as_str()?.trim().parse().ok())?;
    Some(Duration::from_secs(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn answers_are_read_in_the_forms_of_common_tools() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
        let cases = [
            ("s3cret\n", Ok(("s3cret", None))),
            (" with spaces \r\n", Ok((" with spaces ", None))),
            ("", Err("the answer is empty")),
            ("\n", Err("the answer is empty")),
            ("a\nb", Err("the answer has more than one line and is not JSON")),
            (r#"{"password":"p"}"#, Ok(("p", None))),
            (r#"{"password":"p","expiration":"1970-01-01T01:00:00Z"}"#, Ok(("p", Some(3600)))),
            (r#"{"password":"p","expiration":"tomorrow"}"#, Err("the expiration is not a time of RFC 3339")),
            (r#"{"access_token":"t","expires_in":60,"token_type":"Bearer"}"#, Ok(("t", Some(1_060)))),
            // az account get-access-token
            (
                r#"{"accessToken":"t","expiresOn":"1970-01-01 02:00:00.000000","expires_on":7200}"#,
                Ok(("t", Some(7200))),
            ),
            (
                r#"{"kind":"ExecCredential","status":{"token":"t","expirationTimestamp":"1970-01-01T00:00:09Z"}}"#,
                Ok(("t", Some(9))),
            ),
            (r#"{"token":"t","expires_in":"soon"}"#, Err("the expiry is not a number of seconds")),
            (r#"{"token":"t","expires_on":-1}"#, Err("the expiry is not a number of seconds")),
            (r#"{"token":"t","expires_on":"1/2/2026 3:04:05 PM","expires_in":"60"}"#, Ok(("t", Some(1_060)))),
            (r#"{"token":"t","expires_in":null}"#, Ok(("t", None))),
            (r#"{"user":"u"}"#, Err("the JSON has no text \"password\", \"token\" or \"access_token\"")),
            (r#"{"password":7}"#, Err("the JSON has no text \"password\", \"token\" or \"access_token\"")),
            ("{", Err("the answer is not valid JSON")),
        ];
        for (text, expected) in cases {
            let expected = expected.map(|(value, seconds)| Credential {
                value: Secret::new(value),
                expires_at: seconds.map(|seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)),
            });
            assert_eq!(parse(text, now), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(text: String, json in "\\{\"(password|expires_on|expires_in)\":[\"0-9a-z]{0,25}\\}") {
            for text in [text, json] {
                if let Ok(credential) = parse(&text, SystemTime::now()) {
                    prop_assert!(!credential.value.expose().is_empty());
                }
            }
        }
    }
}
