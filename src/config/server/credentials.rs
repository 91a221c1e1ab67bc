//! The source of PostgreSQL's password.

use std::sync::Arc;
use std::time::Duration;

use crate::config::read::Reader;
use crate::credentials::{
    Azure, Command, Environment, Google, IamToken, Identity, PasswordFile, Source, Variables, region_of_rds,
};
use crate::secret::Secret;

const VALUE: &str = "database.password";
const COMMAND: &str = "outboxd.database.password.command";
const FILE: &str = "outboxd.database.passfile";
const AUTH: &str = "outboxd.database.auth";
/// Names of the sources in reports: the fix of a refused login depends on it.
const AZURE: &str = "outboxd.database.auth=azure";
const GOOGLE: &str = "outboxd.database.auth=google";
const REGION: &str = "outboxd.database.aws.region";
const LIMIT: &str = "outboxd.database.password.timeout.ms";

/// Source of tokens in the place of a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Password,
    AwsIam,
    Azure,
    Google,
}

/// Values of `outboxd.database.auth`.
const METHODS: [(&str, Method); 4] = [
    ("password", Method::Password),
    ("aws-iam", Method::AwsIam),
    ("azure", Method::Azure),
    ("google", Method::Google),
];

/// Returns the source of the password, with its time limit.
pub(super) fn password(reader: &mut Reader<'_>) -> Source {
    let limit = reader.millis(LIMIT, 1, Duration::from_secs(10));
    source(reader).within(limit)
}

/// Returns the source of the password: the value, which may be read again from a file; a command; or libpq's password
/// file.
fn source(reader: &mut Reader<'_>) -> Source {
    let host = reader.filled("database.hostname").unwrap_or_default();
    match reader.choice(AUTH, &METHODS, Method::Password) {
        Method::Password => {}
        Method::AwsIam => {
            check_token_login(reader, "aws-iam", "the bundle of RDS");
            return rds_token(reader, host);
        }
        Method::Azure => {
            check_token_login(reader, "azure", "the authorities of Azure");
            let azure = Azure::postgres(Variables::of_process(), host);
            return Source::identity(AZURE, Identity::Azure(azure));
        }
        Method::Google => {
            check_token_login(reader, "google", "the authority of the instance");
            return Source::identity(GOOGLE, Identity::Google(Google::cloud_sql(Variables::of_process())));
        }
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

/// Checks the settings beside a token, which is sent as it is, so that only TLS may carry it.
fn check_token_login(reader: &mut Reader<'_>, method: &str, authority: &str) {
    let Some(setting) = reader.settings.get(AUTH) else { return };
    let mode = reader.filled("database.sslmode").unwrap_or("prefer").to_ascii_lowercase();
    if ["disable", "allow", "prefer"].contains(&mode.as_str()) {
        let reason = format!(
            "it needs TLS: set database.sslmode=verify-full, and database.sslrootcert to {authority}"
        );
        reader.invalid(setting, reason);
    }
    for key in [VALUE, COMMAND] {
        if let Some(other) = reader.settings.get(key).filter(|other| !other.value.is_empty()) {
            reader.invalid(other, format!("{AUTH}={method} makes the password: set one of them"));
        }
    }
}

/// Returns the source of tokens of RDS.
fn rds_token(reader: &mut Reader<'_>, host: &str) -> Source {
    let environment = Environment::of_process();
    let named = reader.filled(REGION).or_else(|| region_of_rds(host)).map(str::to_owned);
    let Some(region) = named.or_else(|| environment.region()) else {
        let reason = "the region of the server is neither in its name nor in AWS_REGION";
        reader.missing(REGION, reason, &[(REGION, "eu-central-1")]);
        return Source::absent(AUTH);
    };
    Source::iam_token(AUTH, IamToken::rds(environment, region))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::source::layers::Dialect;
    use crate::config::source::settings::{Origin, Setting, Settings};

    /// Settings, and the name of the source or a part of the mistake.
    type Case<'c> = (&'c [(&'c str, &'c str)], Result<&'c str, &'c str>);

    /// Returns the name of the source, or the first mistake.
    fn named(said: &[(&str, &str)]) -> Result<String, String> {
        let mut settings = Settings::default();
        for (key, value) in said {
            let (written, value) = ((*key).to_owned(), (*value).to_owned());
            let setting =
                Setting { written, value, origin: Origin::CommandLine, secret: key.ends_with("password") };
            settings.insert((*key).to_owned(), setting);
        }
        let mut reader = Reader::new(&settings, Dialect::Connect);
        let source = password(&mut reader);
        reader
            .problems
            .first()
            .map_or_else(|| Ok(source.option().to_owned()), |problem| Err(problem.to_string()))
    }

    #[test]
    fn a_method_makes_tokens_and_needs_tls() {
        const TLS: (&str, &str) = ("database.sslmode", "verify-full");
        let rds = ("database.hostname", "o.abc.eu-west-1.rds.amazonaws.com");
        let cases: [Case<'_>; 7] = [
            (&[(AUTH, "azure"), TLS], Ok(AZURE)),
            (&[(AUTH, "google"), TLS], Ok(GOOGLE)),
            (&[(AUTH, "aws-iam"), TLS, rds], Ok(AUTH)),
            (&[(AUTH, "password"), (VALUE, "hunter2")], Ok(VALUE)),
            (&[(AUTH, "google")], Err("database.sslrootcert to the authority of the instance")),
            (
                &[(AUTH, "azure"), TLS, (VALUE, "hunter2")],
                Err("outboxd.database.auth=azure makes the password"),
            ),
            (
                &[(AUTH, "azure"), TLS, (COMMAND, "print")],
                Err("outboxd.database.auth=azure makes the password"),
            ),
        ];
        for (said, expected) in cases {
            match (named(said), expected) {
                (Ok(name), Ok(expected)) => assert_eq!(name, expected, "{said:?}"),
                (Err(told), Err(expected)) => {
                    assert!(told.contains(expected) && !told.contains("hunter2"), "{told}");
                }
                (found, _) => panic!("{said:?}: {found:?}"),
            }
        }
    }
}
