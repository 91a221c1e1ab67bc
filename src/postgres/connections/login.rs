//! The start of a session: startup message, authentication, and the first statement.

use postgres_protocol::authentication::{md5_hash, sasl};
use postgres_protocol::message::frontend;

use super::connection::Connection;
use crate::postgres::{Error, ServerOptions};
use crate::secret::Secret;
use crate::wire::{Authentication, BackendMessage, ServerError};

const SCRAM: &str = "SCRAM-SHA-256";
/// Maximum number of hashing rounds. More would take many seconds; PostgreSQL requires 4,096 unless `scram_iterations`
/// has another value.
const SCRAM_ITERATIONS_MAX: u32 = 5_000_000;

const SCRAM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// Session settings that decide the text form of values, those that would end a long-lived session, the one
/// that could suppress warnings of the server, and the visibility of a statement. They go before the settings
/// of the role and the database.
pub(super) const SESSION: [(&str, &str); 12] = [
    ("client_encoding", "UTF8"),
    ("DateStyle", "ISO"),
    ("IntervalStyle", "postgres"),
    ("TimeZone", "UTC"),
    ("bytea_output", "hex"),
    ("extra_float_digits", "3"),
    ("statement_timeout", "0"),
    ("lock_timeout", "0"),
    ("idle_session_timeout", "0"),
    // A snapshot waits in its transaction, for Kafka and for its other connections.
    ("idle_in_transaction_session_timeout", "0"),
    ("client_min_messages", "notice"),
    // A statement after a lock must see everything that was committed before the lock was granted; and a standby refuses `serializable`.
    ("default_transaction_isolation", "read committed"),
];

/// The first PostgreSQL with a limit for whole transactions. Older ones refuse a session that sets it.
const LIMITED_TRANSACTIONS_MAJOR: u32 = 17;
const UNLIMITED_TRANSACTIONS: &str = "SET transaction_timeout = 0";

/// The first statement of every session. A name that a statement of outboxd leaves unqualified then means PostgreSQL's own object,
/// never one that another user has created in a schema of the role's `search_path` (CVE-2018-1058). `SET` itself resolves no name.
///
/// It is a statement and not a startup parameter, so that `RESET search_path` returns to the path of the role or the database.
pub(in crate::postgres) const CATALOG_NAMES: &str = "SET search_path = pg_catalog";

/// Returns to the role's own `search_path`, for statements that the user has written, and for those of ours in which every name is qualified.
pub(super) const ROLE_NAMES: &str = "RESET search_path";

/// Kind of the requested backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// A walsender bound to a database.
    Replication,
    /// An ordinary backend.
    Sql,
}

/// Logs in: startup message, authentication, and everything up to ReadyForQuery.
pub(super) async fn log_in(
    connection: &mut Connection,
    options: &ServerOptions,
    application: &str,
    mode: Mode,
    proof: Proof<'_>,
) -> Result<i32, Error> {
    let login = Login { options, proof };
    let replication = (mode == Mode::Replication).then_some(("replication", "database"));
    let identity = [
        ("user", options.user.as_str()),
        ("database", options.database.as_str()),
        ("application_name", application),
    ];
    let parameters = identity.into_iter().chain(replication).chain(SESSION);
    connection.send(|out| frontend::startup_message(parameters, out)).await?;
    login.authenticate(connection).await?;
    let Backend { process_id, major } = login.until_ready(connection).await?;
    connection.command("logging in", CATALOG_NAMES).await?;
    if major >= LIMITED_TRANSACTIONS_MAJOR {
        connection.command("logging in", UNLIMITED_TRANSACTIONS).await?;
    }
    Ok(process_id)
}

/// Backend of the session.
#[derive(Debug, Default)]
struct Backend {
    process_id: i32,
    /// Major version of the server; 0 until it is reported.
    major: u32,
}

/// The means that prove a login.
pub(super) struct Proof<'a> {
    pub(in crate::postgres) password: Option<&'a Secret>,
    /// The hash of the server's certificate, for channel binding.
    pub(super) server_end_point: Option<Vec<u8>>,
}

struct Login<'a> {
    options: &'a ServerOptions,
    proof: Proof<'a>,
}

impl Login<'_> {
    async fn authenticate(&self, connection: &mut Connection) -> Result<(), Error> {
        match connection.receive("logging in").await? {
            BackendMessage::Authentication(Authentication::Ok) => return Ok(()),
            BackendMessage::Authentication(Authentication::CleartextPassword) => {
                let password = self.password()?;
                connection.send(|out| frontend::password_message(password.as_bytes(), out)).await?;
            }
            BackendMessage::Authentication(Authentication::Md5Password(salt)) => {
                let hash = md5_hash(self.options.user.as_bytes(), self.password()?.as_bytes(), salt);
                connection.send(|out| frontend::password_message(hash.as_bytes(), out)).await?;
            }
            BackendMessage::Authentication(Authentication::Sasl(mechanisms)) => {
                let (mechanism, scram) = self.scram(&mechanisms)?;
                self.run_scram(connection, mechanism, scram).await?;
            }
            BackendMessage::Authentication(Authentication::Unsupported(method)) => {
                return Err(self.failed(format!("the server asks for {method}, which is not supported")));
            }
            other => return Err(self.refused(other)),
        }
        match connection.receive("logging in").await? {
            BackendMessage::Authentication(Authentication::Ok) => Ok(()),
            other => Err(self.refused(other)),
        }
    }

    /// Chooses the mechanism: with channel binding if the server offers it and TLS supports it.
    fn scram(&self, offered: &[&str]) -> Result<(&'static str, sasl::ScramSha256), Error> {
        let plus = offered.contains(&SCRAM_PLUS);
        let (mechanism, binding) = match &self.proof.server_end_point {
            Some(hash) if plus => (SCRAM_PLUS, sasl::ChannelBinding::tls_server_end_point(hash.clone())),
            // Declares that channel binding was possible but not offered: the server then detects a man in the middle that removed the offer.
            Some(_) if offered.contains(&SCRAM) => (SCRAM, sasl::ChannelBinding::unrequested()),
            None if offered.contains(&SCRAM) => (SCRAM, sasl::ChannelBinding::unsupported()),
            _ => {
                let offered = offered.join(", ");
                return Err(self.failed(format!("the server offers only the SASL mechanisms {offered}")));
            }
        };
        Ok((mechanism, sasl::ScramSha256::new(self.password()?.as_bytes(), binding)))
    }

    async fn run_scram(
        &self,
        connection: &mut Connection,
        mechanism: &str,
        mut scram: sasl::ScramSha256,
    ) -> Result<(), Error> {
        connection.send(|out| frontend::sasl_initial_response(mechanism, scram.message(), out)).await?;
        match connection.receive("logging in").await? {
            BackendMessage::Authentication(Authentication::SaslContinue(challenge)) => {
                if iterations(challenge).is_none_or(|count| count > SCRAM_ITERATIONS_MAX) {
                    return Err(
                        self.failed("the server asks for too many SCRAM iterations, or for none".to_owned())
                    );
                }
                scram.update(challenge).map_err(|error| self.failed(error.to_string()))?;
            }
            other => return Err(self.refused(other)),
        }
        connection.send(|out| frontend::sasl_response(scram.message(), out)).await?;
        match connection.receive("logging in").await? {
            BackendMessage::Authentication(Authentication::SaslFinal(proof)) => scram
                .finish(proof)
                .map_err(|_| self.failed("the server did not prove that it has the password".to_owned())),
            other => Err(self.refused(other)),
        }
    }

    async fn until_ready(&self, connection: &mut Connection) -> Result<Backend, Error> {
        let mut backend = Backend::default();
        loop {
            match connection.receive("logging in").await? {
                BackendMessage::BackendKeyData { process_id } => backend.process_id = process_id,
                BackendMessage::ParameterStatus { name: "server_version", value } => {
                    backend.major = major(value);
                }
                BackendMessage::ParameterStatus { .. } | BackendMessage::NoticeResponse(_) => {}
                BackendMessage::ReadyForQuery => return Ok(backend),
                other => return Err(self.refused(other)),
            }
        }
    }

    fn password(&self) -> Result<&str, Error> {
        self.proof.password.map(Secret::expose).ok_or_else(|| Error::PasswordMissing {
            address: self.options.address(),
            user: self.options.user.clone(),
        })
    }

    fn refused(&self, message: BackendMessage<'_>) -> Error {
        match message {
            BackendMessage::ErrorResponse(source) => refusal(self.options, source),
            other => Error::Unexpected { message: Connection::name(&other), doing: "logging in" },
        }
    }

    fn failed(&self, reason: String) -> Error {
        Error::Authentication { address: self.options.address(), reason }
    }
}

/// Parses the major version of `18.4 (Debian …)`, `19beta1`.
fn major(version: &str) -> u32 {
    let digits = version.split(|c: char| !c.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or_default()
}

/// Makes the error of a login that the server refused, in the user's names.
pub(in crate::postgres) fn refusal(options: &ServerOptions, source: ServerError) -> Error {
    Error::Login {
        address: options.address(),
        user: options.user.clone(),
        database: options.database.clone(),
        renewable: None,
        source: Box::new(source),
    }
}

/// Parses the number of hashing rounds of a challenge: its `i=`, after nonce and salt.
fn iterations(challenge: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(challenge).ok()?;
    text.split(',').nth(2)?.strip_prefix("i=")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_major_version_stands_first() {
        let cases = [("18.4 (Debian 18.4-1)", 18), ("19beta1", 19), ("9.6.24", 9), ("", 0), ("x", 0)];
        assert!(cases.iter().all(|(version, expected)| major(version) == *expected));
    }

    #[test]
    fn iterations_are_read_from_a_challenge() {
        let cases = [
            ("r=abc,s=c2FsdA==,i=4096", Some(4096)),
            ("r=abc,s=c2FsdA==,i=4294967295", Some(u32::MAX)),
            ("r=abc,s=c2FsdA==,i=4294967296", None),
            ("r=abc,s=c2FsdA==,i=-1", None),
            ("r=abc,s=c2FsdA==", None),
            ("e=other-error", None),
        ];
        for (challenge, expected) in cases {
            assert_eq!(iterations(challenge.as_bytes()), expected, "{challenge}");
        }
    }

    proptest! {
        /// Any message of a server during the login.
        #[test]
        fn any_challenge_and_any_proof_are_taken_or_refused(
            bytes: Vec<u8>,
            text in "[rsivem]=[a-zA-Z0-9+/=]{0,12},[rsivem]=[a-zA-Z0-9+/=]{0,12},[i]=[0-9]{0,3}",
        ) {
            for challenge in [bytes.as_slice(), text.as_bytes()] {
                let mut scram = sasl::ScramSha256::new(b"secret", sasl::ChannelBinding::unsupported());
                if iterations(challenge).is_some_and(|count| count < 1000) && scram.update(challenge).is_ok() {
                    prop_assert!(scram.finish(challenge).is_err(), "nobody proves anything so");
                }
            }
        }
    }
}
