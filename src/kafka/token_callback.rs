//! Tokens of SASL OAUTHBEARER for librdkafka, which requests one on the thread that polls a client.
//!
//! Clients whose logins need no token from outboxd ignore all of this, also those whose tokens librdkafka requests from an identity provider.

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rdkafka::ClientConfig;
use rdkafka::client::OAuthToken;

use crate::credentials::Tokens;

/// The property whose value librdkafka passes to its callback: the number of the source. A context then needs no options.
const PROPERTY: &str = "sasl.oauthbearer.config";
const PREFIX: &str = "outboxd-tokens-";

/// Maximum time after which librdkafka requests a token again. It detects a refused token only then.
const ASK_AGAIN: Duration = Duration::from_secs(10);

/// Sources by their numbers. A process has one for each configuration that it has read.
static SOURCES: Mutex<BTreeMap<u64, Tokens>> = Mutex::new(BTreeMap::new());

/// Makes clients of a configuration use this source.
pub(super) fn install(tokens: &Tokens, config: &mut ClientConfig) {
    sources().entry(tokens.number()).or_insert_with(|| tokens.clone());
    config.set(PROPERTY, format!("{PREFIX}{}", tokens.number()));
}

/// Returns the token for a client, by the value of its property.
pub(super) fn token(property: Option<&str>) -> Result<OAuthToken, Box<dyn Error>> {
    let number = property.and_then(|value| value.strip_prefix(PREFIX)?.parse().ok());
    let tokens = number.and_then(|number: u64| sources().get(&number).cloned());
    let tokens = tokens.ok_or("its source makes one token only: set outboxd.kafka.token.command")?;
    Ok(current(&tokens)?)
}

/// Returns the token for a client, at once if there is a valid one.
///
/// # Errors
/// The reason for which there is none, with the option of the source.
pub(super) fn current(tokens: &Tokens) -> Result<OAuthToken, String> {
    let token = tokens.current()?;
    let now = SystemTime::now();
    let left = token.expires_at.duration_since(now).unwrap_or_default();
    // librdkafka requests the next token after 80 % of the given lifetime. Half of it is given, so that the next token is available in time.
    let known = now + (left / 2).min(ASK_AGAIN).max(Duration::from_millis(1));
    let known = known.duration_since(UNIX_EPOCH).unwrap_or_default();
    Ok(OAuthToken {
        token: token.value.expose().to_owned(),
        principal_name: token.subject.unwrap_or_else(|| "outboxd".to_owned()),
        lifetime_ms: i64::try_from(known.as_millis()).unwrap_or(i64::MAX),
    })
}

fn sources() -> MutexGuard<'static, BTreeMap<u64, Tokens>> {
    SOURCES.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credentials::{Command, Source};

    #[test]
    fn a_client_gets_the_token_of_its_own_source() {
        let installed = |token: &str| {
            let text = format!("printf '{{\"token\":\"{token}\",\"expires_in\":8}}'");
            let tokens = Tokens::new(Source::command("the.command", Command::parse(&text).unwrap()), "k:1");
            let mut config = ClientConfig::new();
            install(&tokens, &mut config);
            config.get(PROPERTY).unwrap().to_owned()
        };
        for (property, expected) in [(installed("one"), "one"), (installed("two"), "two")] {
            let token = token(Some(&property)).unwrap();
            assert_eq!((token.token.as_str(), token.principal_name.as_str()), (expected, "outboxd"));
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
            let left = Duration::from_millis(token.lifetime_ms.try_into().unwrap()).saturating_sub(now);
            assert!((2..5).contains(&left.as_secs()), "half of its life: {left:?}");
        }
        assert!(token(None).is_err());
        assert!(token(Some("principal=admin")).is_err());
    }
}
