//! The source of PostgreSQL's password.

use std::sync::Arc;
use std::time::Duration;

use crate::config::read::Reader;
use crate::credentials::{Command, Environment, IamToken, PasswordFile, Source, region_of_rds};
use crate::secret::Secret;

const VALUE: &str = "database.password";
const COMMAND: &str = "outboxd.database.password.command";
const FILE: &str = "outboxd.database.passfile";
const AUTH: &str = "outboxd.database.auth";
const REGION: &str = "outboxd.database.aws.region";
const LIMIT: &str = "outboxd.database.password.timeout.ms";

/// Returns the source of the password, with its time limit.
pub(super) fn password(reader: &mut Reader<'_>) -> Source {
    let limit = reader.millis(LIMIT, 1, Duration::from_secs(10));
    source(reader).within(limit)
}

/// Returns the source of the password: the value, which may be read again from a file; a command; or libpq's password
/// file.
fn source(reader: &mut Reader<'_>) -> Source {
    if reader.choice(AUTH, &[("password", false), ("aws-iam", true)], false) {
        return rds_token(reader);
    }
    let value = reader.text(VALUE).filter(|value| !value.is_empty());
    if let Some(setting) = reader.settings.get(COMMAND) {
        if value.is_some() {
            reader.invalid(setting, "database.password is set too: remove one of them");
        }
        return match Command::parse(&setting.value) {
            Ok(command) => Source::command(COMMAND, command),
            Err(error) => {
                reader.invalid(setting, error.to_string());
                Source::absent(VALUE)
            }
        };
    }
    match (value, reader.settings.file_value(VALUE)) {
        (Some(_), Some(origin)) => Source::reread(VALUE, Arc::new(origin.clone())),
        (Some(value), None) => Source::literal(VALUE, Secret::new(value)),
        (None, _) => match reader.path(FILE) {
            Some(path) => Source::password_file(FILE, PasswordFile::new(path)),
            None => PasswordFile::of_environment(|name| std::env::var(name).ok())
                .map_or_else(|| Source::absent(VALUE), |file| Source::password_file(VALUE, file)),
        },
    }
}

/// Returns the source of tokens of RDS. A token is sent as it is, so that only TLS may carry it.
fn rds_token(reader: &mut Reader<'_>) -> Source {
    let Some(setting) = reader.settings.get(AUTH) else { return Source::absent(AUTH) };
    let mode = reader.filled("database.sslmode").unwrap_or("prefer").to_ascii_lowercase();
    if ["disable", "allow", "prefer"].contains(&mode.as_str()) {
        let reason =
            "it needs TLS: set database.sslmode=verify-full, and database.sslrootcert to the bundle of RDS";
        reader.invalid(setting, reason);
    }
    for key in [VALUE, COMMAND] {
        if let Some(other) = reader.settings.get(key).filter(|other| !other.value.is_empty()) {
            reader.invalid(other, format!("{AUTH}=aws-iam makes the password: set one of them"));
        }
    }
    let environment = Environment::of_process();
    let host = reader.filled("database.hostname").unwrap_or_default();
    let named = reader.filled(REGION).or_else(|| region_of_rds(host)).map(str::to_owned);
    let Some(region) = named.or_else(|| environment.region()) else {
        let reason = "the region of the server is neither in its name nor in AWS_REGION";
        reader.missing(REGION, reason, &[(REGION, "eu-central-1")]);
        return Source::absent(AUTH);
    };
    Source::iam_token(AUTH, IamToken::rds(environment, region))
}
