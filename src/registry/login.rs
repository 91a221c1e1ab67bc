//! The login at the registry. Its credentials are asked for at each request: a source may return others than before.

use std::sync::Arc;

use crate::credentials::{self, Credential, Reread, Source, Target};
use crate::http_client::{Address, Credentials};
use crate::secret::Secret;

/// Login at the registry.
#[derive(Debug, Clone)]
pub struct Login {
    source: Source,
    form: Form,
    /// Value at the start, if the configuration has one.
    first: Option<Secret>,
}

/// Meaning of the source's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Form {
    /// `user:password`.
    UserInfo,
    /// Addresses, of which one has `user:password@`.
    Url,
    /// The password of this user.
    PasswordOf(String),
    /// A bearer token.
    Bearer,
}

/// Sources of the configuration for credentials, besides their values.
pub(crate) struct LoginSources<'a> {
    /// Returns the source of a key's value, if that can be read again.
    pub(crate) reread: &'a dyn Fn(&str) -> Option<Arc<dyn Reread>>,
    /// Source of the tokens of Kafka's clients, if they log in with tokens.
    pub(crate) kafka: Option<Source>,
}

impl Login {
    /// Makes a login without credentials.
    pub(super) fn none(option: &str) -> Self {
        Self { source: Source::absent(option), form: Form::UserInfo, first: None }
    }

    /// Makes a login of the value of an option, which is read again at each request if it can be.
    pub(super) fn of_value(option: &str, form: Form, value: &str, reread: Option<Arc<dyn Reread>>) -> Self {
        let first = Secret::new(value);
        let source = match reread {
            Some(reread) => Source::reread(option, reread),
            None => Source::literal(option, first.clone()),
        };
        Self { source, form, first: Some(first) }
    }

    /// Makes a login with the tokens of a source.
    pub(super) const fn with_tokens(source: Source) -> Self {
        Self { source, form: Form::Bearer, first: None }
    }

    /// Makes the login of an address of the command line.
    pub(super) fn of_address(option: &str, address: &Address) -> Self {
        match &address.user {
            Some(Credentials::Basic(user)) => Self::of_value(option, Form::UserInfo, user.expose(), None),
            Some(Credentials::Bearer(_)) | None => Self::none(option),
        }
    }

    /// Returns the option of the source, if it can return other credentials than before.
    pub(super) fn renewable(&self) -> Option<&str> {
        self.source.renewable()
    }

    /// Asks the source.
    pub(super) async fn fetch(&self, target: &Target) -> Result<Option<Credential>, credentials::Error> {
        self.source.fetch(target).await
    }

    /// Forgets a value that the registry has refused.
    pub(super) async fn forget(&self, refused: &Credential) {
        self.source.forget(refused).await;
    }

    /// Returns what the source's value means for HTTP.
    pub(super) fn read(&self, credential: &Credential) -> Option<Credentials> {
        let value = credential.value.expose().trim();
        match &self.form {
            Form::UserInfo => Some(Credentials::Basic(Secret::new(value))),
            Form::Url => value.split(',').find_map(|url| Address::parse(url)?.user),
            Form::PasswordOf(user) => {
                Some(Credentials::Basic(Secret::new([user, ":", credential.value.expose()].concat())))
            }
            Form::Bearer => Some(Credentials::Bearer(Secret::new(value))),
        }
    }

    /// Returns whose token it is and when it expires, for reports; None for a password.
    pub(crate) async fn description(&self) -> Option<String> {
        match self.form {
            Form::Bearer => self.source.description().await,
            Form::UserInfo | Form::Url | Form::PasswordOf(_) => None,
        }
    }
}

/// Logins of the same values: those of keys and of values are often alike.
impl PartialEq for Login {
    fn eq(&self, other: &Self) -> bool {
        self.form == other.form && self.first == other.first && self.source.has_identity_of(&other.source)
    }
}

impl Eq for Login {}

#[cfg(test)]
impl LoginSources<'static> {
    /// Makes sources of values that never change.
    pub(crate) fn none() -> Self {
        Self { reread: &|_| None, kafka: None }
    }
}
