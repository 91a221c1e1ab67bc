//! Errors of PostgreSQL.

use super::slot::holder::SlotHolder;
use std::io;

use super::catalog::grants::hiding_table;
use super::connections::credential::refuses_credential;
use super::fixes::{forbidden_table, login_fix, sqlstate_fix};
use super::sqlstate::{Verdict, verdict};
use crate::credentials;
use crate::error::{Diagnose, Diagnosis, Exit};
use crate::wal::Lsn;
use crate::wire::{DecodeError, FrameError, ServerError};

/// Failures between outboxd and PostgreSQL.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No connection could be established.
    #[error("PostgreSQL at {address} cannot be reached")]
    Connect {
        /// `host:port`, or the socket's folder.
        address: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The server has no TLS and `database.sslmode` requires it.
    #[error("PostgreSQL at {address} offers no TLS, which database.sslmode={mode} requires")]
    TlsRefused {
        /// `host:port`.
        address: String,
        /// The mode in force.
        mode: &'static str,
    },
    /// The handshake failed, or the certificate is not trusted.
    #[error("TLS with PostgreSQL at {address} failed")]
    TlsHandshake {
        /// `host:port`.
        address: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A certificate or key file cannot be used.
    #[error("{option}: {path} cannot be used")]
    TlsFile {
        /// The option that names the file.
        option: &'static str,
        /// The file.
        path: String,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The server refused the login.
    #[error("PostgreSQL at {address} refused the login of user {user:?} to database {database:?}")]
    Login {
        /// `host:port`.
        address: String,
        /// `database.user`.
        user: String,
        /// `database.dbname`.
        database: String,
        /// The option whose source may return another credential, when the server refused the one of now.
        renewable: Option<String>,
        /// The server's message.
        #[source]
        source: Box<ServerError>,
    },
    /// The server requires a password and none is configured.
    #[error("PostgreSQL at {address} asks for a password of user {user:?}, but database.password is not set")]
    PasswordMissing {
        /// `host:port`.
        address: String,
        /// `database.user`.
        user: String,
    },
    /// The source of the password failed.
    #[error("no password for PostgreSQL at {address}")]
    Credential {
        /// `host:port`.
        address: String,
        /// Cause.
        #[source]
        source: credentials::Error,
    },
    /// The server requires an unsupported login method, or did not prove that it has the password.
    #[error("login to PostgreSQL at {address} is not possible: {reason}")]
    Authentication {
        /// `host:port`.
        address: String,
        /// Cause.
        reason: String,
    },
    /// A command or query was refused.
    #[error("{doing} failed")]
    Server {
        /// Action, as text.
        doing: String,
        /// The server's message.
        #[source]
        source: Box<ServerError>,
    },
    /// The SQL connection broke.
    #[error("{doing} failed")]
    Sql {
        /// Action, as text.
        doing: String,
        /// Cause.
        #[source]
        source: tokio_postgres::Error,
    },
    /// Timeout.
    #[error("{doing} took longer than {seconds} s")]
    Timeout {
        /// Action, as text.
        doing: String,
        /// The limit.
        seconds: u64,
    },
    /// The connection broke.
    #[error("the connection to PostgreSQL broke while {doing}")]
    Broken {
        /// Action, as text.
        doing: &'static str,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A message cannot be framed.
    #[error("PostgreSQL sent a message that cannot be read, after {after}")]
    Frame {
        /// LSN up to which the stream had been read.
        after: Lsn,
        /// Cause.
        #[source]
        source: FrameError,
    },
    /// A message cannot be decoded.
    #[error("PostgreSQL sent a message that cannot be read, at {lsn}")]
    Decode {
        /// Position in the stream.
        lsn: Lsn,
        /// Message, offset, and reason.
        #[source]
        source: DecodeError,
    },
    /// Unexpected message.
    #[error("PostgreSQL sent an unexpected {message} while {doing}")]
    Unexpected {
        /// Unexpected message.
        message: String,
        /// Action, as text.
        doing: &'static str,
    },
    /// PostgreSQL is reachable but not prepared.
    #[error("{problem}")]
    Precondition {
        /// Missing object or setting, with the user's names.
        problem: String,
        /// Statement or setting to apply.
        fix: String,
    },
    /// Rows of captured tables are missing in the stream, or may be. This is stored until the operator
    /// acts.
    #[error("{problem}")]
    Unpublished {
        /// Reason, with the user's names.
        problem: String,
        /// Statement or setting to apply.
        fix: String,
    },
    /// The server is in recovery, and `read.only` does not allow that.
    #[error("this PostgreSQL is a standby (pg_is_in_recovery)")]
    Standby,
    /// The standby that was read is a primary now. Its WAL continues, on another timeline.
    #[error("the standby was promoted: the stream restarts")]
    Promoted,
    /// A table was rewritten after a snapshot was taken, which does not see its rows.
    #[error(
        "table {table} was rewritten or emptied while a snapshot waited to read it: the snapshot restarts"
    )]
    Rewritten {
        /// Name, quoted for SQL.
        table: String,
    },
    /// A restarted standby has not yet replayed the WAL that was read before.
    #[error("the standby has replayed its WAL up to {replayed}, and it was read up to {read_to} before")]
    NotReplayed {
        /// LSN that it has replayed.
        replayed: Lsn,
        /// LSN that was read before.
        read_to: Lsn,
    },
    /// Another session reads the slot.
    #[error("{0}")]
    SlotActive(SlotHolder),
    /// The slot has lost WAL that it should have retained.
    #[error("replication slot {slot:?} is lost: {reason}")]
    SlotLost {
        /// `slot.name`.
        slot: String,
        /// Cause.
        reason: String,
        /// Fix.
        fix: String,
    },
}

impl Error {
    /// Reports whether the server refused the login because of the password or token.
    pub(super) fn refuses_credential(&self) -> bool {
        matches!(self, Self::Login { source, .. } if refuses_credential(source))
    }

    /// Names the source of the credential that the server refused: another attempt may have another one.
    pub(super) fn renewable(mut self, option: &str) -> Self {
        if let Self::Login { renewable, .. } = &mut self {
            *renewable = Some(option.to_owned());
        }
        self
    }

    /// Returns the SQLSTATE, when the server answered with one.
    #[must_use]
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Login { source, .. } | Self::Server { source, .. } => Some(&source.code),
            _ => None,
        }
    }

    /// Makes a refusal by the server, or a broken connection, whichever `source` is.
    pub(crate) fn sql(doing: impl Into<String>, source: tokio_postgres::Error) -> Self {
        let doing = doing.into();
        match source.as_db_error() {
            Some(refusal) => Self::Server { doing, source: Box::new(server_error(refusal)) },
            None => Self::Sql { doing, source },
        }
    }
}

impl Diagnose for Error {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Connect { .. } => Diagnosis::transient(Exit::PostgresUnreachable).with_fix(
                "check database.hostname and database.port, that the server runs, and that listen_addresses \
                 and the firewall let outboxd in",
            ),
            // A certificate or a password that is rotated may be right at the next attempt, but not without an operator.
            Self::TlsRefused { .. } => Diagnosis { exit: Exit::PostgresUnreachable, ..Diagnosis::config() }
                .with_fix(
                    "switch TLS on in the server (ssl = on), or set database.sslmode=prefer to connect without \
                     TLS",
                ),
            Self::TlsFile { .. } => Diagnosis::config(),
            Self::TlsHandshake { .. } => Diagnosis::definite(Exit::PostgresUnreachable).with_fix(
                "set database.sslrootcert to the PEM file of the authority that \
                 signed the server's certificate; verify-full also needs \
                 database.hostname to be a name in the certificate",
            ),
            Self::Login { user, renewable: Some(option), .. } => {
                Diagnosis::transient(Exit::PostgresUnreachable).with_fix(renewable_fix(user, option))
            }
            Self::Login { user, database, source, .. } => {
                let (class, exit) = (verdict(&source.code).class(), Exit::PostgresUnreachable);
                Diagnosis { class, exit, fix: Some(login_fix(user, database, source)) }
            }
            Self::Credential { source, .. } => {
                Diagnosis::transient(Exit::PostgresUnreachable).with_fix(source.fix())
            }
            Self::PasswordMissing { .. } => Diagnosis::definite(Exit::PostgresUnreachable).with_fix(
                "set database.password, for instance as ${env:PGPASSWORD} or ${file:/run/secrets/db:password}",
            ),
            Self::Authentication { .. } => Diagnosis::definite(Exit::PostgresUnreachable),
            Self::Server { doing, source } => {
                let verdict = verdict(&source.code);
                let exit = match verdict == Verdict::Lasting {
                    true => Exit::Precondition,
                    false => Exit::PostgresUnreachable,
                };
                Diagnosis { class: verdict.class(), exit, fix: server_fix(doing, source) }
            }
            Self::Sql { .. }
            | Self::Timeout { .. }
            | Self::Broken { .. }
            | Self::Promoted
            | Self::Rewritten { .. } => {
                Diagnosis::transient(Exit::PostgresUnreachable)
            }
            Self::Standby => Diagnosis::definite(Exit::Precondition).with_fix(
                "point database.hostname at the primary; to read from a standby, which PostgreSQL 16 and \
                 later can do, set read.only=true",
            ),
            Self::NotReplayed { .. } => Diagnosis::transient(Exit::PostgresUnreachable).with_fix(
                "on the standby, SELECT pg_last_wal_replay_lsn(); must advance: check that it receives \
                 WAL from the primary. If it was restored from a backup, it is another server than the one that was read",
            ),
            Self::Precondition { fix, .. } | Self::Unpublished { fix, .. } => {
                Diagnosis::definite(Exit::Precondition).with_fix(fix)
            }
            Self::SlotActive(holder) => {
                Diagnosis::transient(Exit::Precondition).with_fix(slot_active_fix(holder))
            }
            Self::SlotLost { fix, .. } => Diagnosis::definite(Exit::SlotLost).with_fix(fix),
            Self::Frame { source: FrameError::TooLong { .. }, .. } => Diagnosis::transient(Exit::Failed)
                .with_fix("raise outboxd.message.max.bytes if a row is really that large"),
            // A proxy or a flipped bit may be the cause: one fresh connection shows it.
            Self::Frame { .. } | Self::Decode { .. } | Self::Unexpected { .. } => {
                Diagnosis::transient(Exit::Failed)
            }
        }
    }
}

/// Returns the fix for a login that was refused with a credential of a source that may return another one.
fn renewable_fix(user: &str, option: &str) -> String {
    match option {
        "outboxd.database.auth" => format!(
            "GRANT rds_iam TO \"{user}\"; and allow the AWS identity rds-db:connect on \
             arn:aws:rds-db:REGION:ACCOUNT:dbuser:RESOURCE_ID/{user}. IAM authentication must be on for the instance, and \
             database.hostname must be the name of its endpoint"
        ),
        "outboxd.database.auth=azure" => format!(
            "as an administrator of Entra, in database postgres: SELECT pgaadauth_create_principal('{user}', false, false); the name of \
             the role must be that of the identity, and Entra authentication must be on for the server"
        ),
        "outboxd.database.auth=google" => format!(
            "gcloud sql users create {user} --instance=INSTANCE --type=cloud_iam_service_account; and give the service account \
             roles/cloudsql.instanceUser. The name of the role is its address without .gserviceaccount.com, and the flag \
             cloudsql.iam_authentication must be on"
        ),
        option => format!(
            "let {option} return the password of role {user:?}: it is asked for again at each attempt"
        ),
    }
}

/// Returns the fix for a statement that the server refused.
fn server_fix(doing: &str, refusal: &ServerError) -> Option<String> {
    if doing == STREAMING && refusal.code == "42704" {
        return Some(NO_PUBLICATION_FIX.to_owned());
    }
    if let Some(table) = hiding_table(refusal) {
        return Some(format!(
            "as a superuser: ALTER ROLE ROLE BYPASSRLS; or let outboxd's role own table {table}: its policies hide rows from the role, \
             and a snapshot must have all of them, as the stream has"
        ));
    }
    if let Some(table) = forbidden_table(refusal) {
        return Some(format!(
            "as the owner of table {table}: grant outboxd's role what it lacks there, such as GRANT SELECT ON {table} TO \
             ROLE; sql/role.sql lists all that outboxd needs"
        ));
    }
    sqlstate_fix(&refusal.code)
}

fn slot_active_fix(holder: &SlotHolder) -> String {
    if holder.other.is_some() {
        return "give this service a slot.name and a publication.name of its own; if it must be another instance of that one, \
                give both the same configuration, and stop all instances before changing it"
            .to_owned();
    }
    format!(
        "stop the other program, or give this one a slot.name of its own; to end a session that is left over: \
         SELECT pg_terminate_backend({});",
        holder.pid
    )
}

/// Most frequent action.
pub(super) const STREAMING: &str = "streaming";

/// The server decodes with the catalog of the time at which a row was written, so that a publication created later does not help.
pub(super) const NO_PUBLICATION_FIX: &str = "the rows written since are not in the stream, and never will \
                                              be: create the publication again, move the slot past them \
                                              with SELECT end_lsn FROM pg_replication_slot_advance('…', \
                                              pg_current_wal_lsn()), start once with -X \
                                              outboxd.position.accept=END_LSN -X snapshot.mode=always, \
                                              which sends all rows of the table";

pub(super) fn server_error(refusal: &tokio_postgres::error::DbError) -> ServerError {
    ServerError {
        severity: severity(refusal),
        code: refusal.code().code().to_owned(),
        message: refusal.message().to_owned(),
        detail: refusal.detail().map(str::to_owned),
        hint: refusal.hint().map(str::to_owned),
        file: refusal.file().map(str::to_owned),
    }
}

/// Returns the severity, untranslated.
fn severity(refusal: &tokio_postgres::error::DbError) -> String {
    let translated = || refusal.severity().to_owned();
    refusal.parsed_severity().map_or_else(translated, |severity| severity.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Class::{Definite, Transient};

    /// Refusals with the server's messages, and their diagnoses.
    const REFUSALS: &str = include_str!("cases/refusals.tsv");

    #[test]
    fn what_the_server_refuses_is_tried_again_or_reported_with_its_fix() {
        for line in REFUSALS.lines().skip(1) {
            let [doing, code, message, class, exit, fix] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("{line}");
            };
            let source = Box::new(ServerError {
                severity: "ERROR".to_owned(),
                code: code.to_owned(),
                message: message.to_owned(),
                ..ServerError::default()
            });
            let error = match doing {
                "logging in" => Error::Login {
                    address: "127.0.0.1:5432".to_owned(),
                    user: "relay".to_owned(),
                    database: "shop".to_owned(),
                    renewable: None,
                    source,
                },
                doing => Error::Server { doing: doing.to_owned(), source },
            };
            let expected = if class == "transient" { Transient } else { Definite };
            assert_eq!(error.class(), expected, "{line}");
            assert_eq!(error.exit().code().to_string(), exit, "{line}");
            let told = error.fix().unwrap_or_default();
            assert!(told.contains(fix) && told.is_empty() == fix.is_empty(), "{line}: {told}");
        }
    }
}
