//! The login of a client that exists. `rdkafka` requests a token only for clients that it polls, which administrators are not, and changes no
//! password.

use std::ffi::{CStr, CString, c_char};
use std::ptr;

use rdkafka::ClientContext;
use rdkafka::bindings::{
    rd_kafka_error_destroy, rd_kafka_error_string, rd_kafka_oauthbearer_set_token,
    rd_kafka_sasl_set_credentials, rd_kafka_t,
};
use rdkafka::client::{Client, OAuthToken};
use rdkafka::error::RDKafkaErrorCode;

/// Size of the buffer for librdkafka's reason of a refusal, in bytes.
const REASON_SIZE: usize = 512;

/// Reason why a client did not accept a token or password.
#[derive(Debug, thiserror::Error)]
#[error("not accepted: {0}")]
pub struct Refused(String);

/// Sets the token with which a client logs in to brokers from now on.
///
/// # Errors
/// When the client does not log in by SASL OAUTHBEARER, or the token has expired or has characters that no token may have.
pub fn set_token<C: ClientContext>(client: &Client<C>, token: &OAuthToken) -> Result<(), Refused> {
    let (value, principal) = (text(&token.token)?, text(&token.principal_name)?);
    let mut reason: [c_char; REASON_SIZE] = [0; REASON_SIZE];
    // SAFETY: rdkafka destroys the client when `Client` is dropped, and not before. librdkafka copies the texts. It writes at most as
    // many bytes as the buffer has, with a zero at the end.
    let code = unsafe {
        rd_kafka_oauthbearer_set_token(
            client.native_ptr().cast::<rd_kafka_t>(),
            value.as_ptr(),
            token.lifetime_ms,
            principal.as_ptr(),
            ptr::null_mut(),
            0,
            reason.as_mut_ptr(),
            reason.len(),
        )
    };
    if RDKafkaErrorCode::from(code) == RDKafkaErrorCode::NoError {
        return Ok(());
    }
    // SAFETY: the buffer has a zero at its end, since it had only zeros before.
    let reason = unsafe { CStr::from_ptr(reason.as_ptr()) };
    Err(Refused(reason.to_string_lossy().into_owned()))
}

/// Sets user and password with which a client logs in by SASL PLAIN or SCRAM. Open connections remain as they are.
///
/// # Errors
/// When librdkafka refuses them, or a text has a zero in it.
pub fn set_password<C: ClientContext>(client: &Client<C>, user: &str, password: &str) -> Result<(), Refused> {
    let (user, password) = (text(user)?, text(password)?);
    // SAFETY: rdkafka destroys the client when `Client` is dropped, and not before. librdkafka copies the texts.
    let error = unsafe {
        rd_kafka_sasl_set_credentials(
            client.native_ptr().cast::<rd_kafka_t>(),
            user.as_ptr(),
            password.as_ptr(),
        )
    };
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: the error is ours until it is destroyed, and so is its text, which has a zero at its end.
    let reason = unsafe { CStr::from_ptr(rd_kafka_error_string(error)) }.to_string_lossy().into_owned();
    // SAFETY: nothing refers to the error any more.
    unsafe { rd_kafka_error_destroy(error) };
    Err(Refused(reason))
}

fn text(text: &str) -> Result<CString, Refused> {
    CString::new(text).map_err(|error| Refused(error.to_string()))
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use rdkafka::ClientConfig;
    use rdkafka::admin::AdminClient;
    use rdkafka::client::DefaultClientContext;

    use super::*;

    fn client(mechanism: &str) -> AdminClient<DefaultClientContext> {
        let mut config = ClientConfig::new();
        config.set("security.protocol", "SASL_PLAINTEXT").set("sasl.mechanism", mechanism);
        config.set("sasl.username", "user").set("sasl.password", "password");
        config.create().unwrap()
    }

    fn set(mechanism: &str, token: &OAuthToken) -> Result<(), String> {
        set_token(client(mechanism).inner(), token).map_err(|error| error.to_string())
    }

    #[test]
    fn a_password_is_accepted_or_refused_with_its_reason() {
        let client = client("SCRAM-SHA-256");
        assert!(set_password(client.inner(), "user", "other").is_ok());
        let refused = set_password(client.inner(), "user", "a\0b").unwrap_err().to_string();
        assert!(refused.contains("nul byte"), "{refused}");
    }

    #[test]
    fn a_token_is_accepted_or_refused_with_its_reason() {
        let token = |token: &str, lifetime_ms| OAuthToken {
            token: token.to_owned(),
            principal_name: "relay".to_owned(),
            lifetime_ms,
        };
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let soon = i64::try_from(since_1970.as_millis()).unwrap() + 3_600_000;
        let valid = token("eyJhbGciOiJub25lIn0.e30.", soon);
        assert_eq!(set("OAUTHBEARER", &valid), Ok(()));
        for (mechanism, token, reason) in [
            ("PLAIN", valid, "not the configured"),
            ("OAUTHBEARER", token("eyJhbGciOiJub25lIn0.e30.", 1), "unexpired"),
            ("OAUTHBEARER", token("a\0b", soon), "nul byte"),
            ("OAUTHBEARER", token("a\u{1}b", soon), "visible characters"),
        ] {
            let refused = set(mechanism, &token).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }
}
