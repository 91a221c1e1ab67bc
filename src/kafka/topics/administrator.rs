//! The client for requests about topics and their settings.

use std::time::Duration;

use rdkafka::admin::AdminClient;
use rdkafka::client::OAuthToken;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka_gaps::login::set_token;
use tokio::task::spawn_blocking;

use crate::credentials::Tokens;
use crate::kafka::client_config::client_config;
use crate::kafka::connection_failures::ConnectionFailures;
use crate::kafka::consume::reader::unreachable;
use crate::kafka::error::Error;
use crate::kafka::options::Options;
use crate::kafka::token_callback;

/// An administrator. It gets a token before each request: librdkafka's binding never polls it, and so never requests one for it.
pub(in crate::kafka) struct Administrator {
    client: AdminClient<ConnectionFailures>,
    failures: ConnectionFailures,
    tokens: Option<Tokens>,
}

impl Administrator {
    /// Creates an administrator, with the producer's settings. The reason of a failed login or connection is recorded in `failures`.
    ///
    /// # Errors
    /// When librdkafka refuses a setting.
    pub(in crate::kafka) fn new(options: &Options, failures: ConnectionFailures) -> KafkaResult<Self> {
        let client = client_config(options).create_with_context(failures.clone())?;
        Ok(Self { client, failures, tokens: options.tokens.clone() })
    }

    /// Returns the client for one request.
    ///
    /// # Errors
    /// `Authentication` when there is no token.
    pub(in crate::kafka) async fn client(&self) -> KafkaResult<&AdminClient<ConnectionFailures>> {
        let Some(tokens) = self.tokens.clone() else { return Ok(&self.client) };
        let token = spawn_blocking(move || token_callback::current(&tokens)).await;
        self.log_in(token.unwrap_or_else(|aborted| Err(aborted.to_string())))
    }

    /// Returns the client for one request. Waits for a token.
    ///
    /// # Errors
    /// As of [`Self::client`].
    pub(in crate::kafka) fn blocking_client(&self) -> KafkaResult<&AdminClient<ConnectionFailures>> {
        match &self.tokens {
            Some(tokens) => self.log_in(token_callback::current(tokens)),
            None => Ok(&self.client),
        }
    }

    /// Returns the error for unreachable brokers, when that is why there was no answer within `patience`.
    pub(in crate::kafka) fn unreachable(
        &self,
        servers: &str,
        error: &KafkaError,
        patience: Duration,
    ) -> Option<Error> {
        unreachable(servers, &self.failures, error, patience)
    }

    /// Returns the reason of the last failed login or connection.
    pub(in crate::kafka) fn last_failure(&self) -> Option<String> {
        self.failures.last()
    }

    fn log_in(&self, token: Result<OAuthToken, String>) -> KafkaResult<&AdminClient<ConnectionFailures>> {
        let set = token
            .and_then(|token| set_token(self.client.inner(), &token).map_err(|refused| refused.to_string()));
        match set {
            Ok(()) => Ok(&self.client),
            Err(reason) => {
                self.failures.no_token(&reason);
                Err(KafkaError::AdminOp(Code::Authentication))
            }
        }
    }
}
