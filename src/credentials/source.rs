//! Sources of credentials.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::Mutex;

use super::{Command, Error, IamToken, Identity, PasswordFile};
use crate::secret::Secret;

/// A value with less than this left is asked for again, or with less than a fifth of its life.
const RESERVE: Duration = Duration::from_secs(60);
const RESERVE_PART: u32 = 5;
/// The default time limit. A file too may be on a disk that does not answer.
const ANSWER_MAX: Duration = Duration::from_secs(10);

/// A secret and its expiry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Credential {
    /// The password or token.
    pub value: Secret,
    /// The time at which it ends, if the source names one.
    pub expires_at: Option<SystemTime>,
}

/// The connection that a credential is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// Host or folder of a socket.
    pub host: String,
    /// Port.
    pub port: u16,
    /// Database.
    pub database: String,
    /// Role.
    pub user: String,
}

/// A value that can be read again, such as a configuration's placeholder of a file.
pub(crate) trait Reread: fmt::Debug + Send + Sync {
    /// Reads the value.
    ///
    /// # Errors
    /// When it cannot be read; the error has no secret.
    fn reread(&self) -> Result<Secret, Box<dyn std::error::Error + Send + Sync>>;
}

/// The source of one credential, asked at each connection. Clones share what is remembered.
#[derive(Debug, Clone)]
pub struct Source {
    /// The option that configures it.
    option: String,
    provider: Provider,
    limit: Duration,
    last: Arc<Mutex<Option<Fetched>>>,
}

#[derive(Debug, Clone)]
enum Provider {
    Absent,
    Literal(Secret),
    Reread(Arc<dyn Reread>),
    Command(Command),
    PasswordFile(PasswordFile),
    IamToken(Arc<IamToken>),
    Identity(Arc<Identity>),
}

/// The last answer.
#[derive(Debug, Clone)]
struct Fetched {
    credential: Credential,
    at: Instant,
    /// From here on another one is asked for; None without an expiry.
    renew_at: Option<SystemTime>,
}

impl Source {
    /// Makes a source without a credential: a server that asks for one refuses the login.
    #[must_use]
    pub fn absent(option: &str) -> Self {
        Self::new(option, Provider::Absent)
    }

    /// Makes a source of a value that never changes.
    #[must_use]
    pub fn literal(option: &str, value: Secret) -> Self {
        Self::new(option, Provider::Literal(value))
    }

    /// Makes a source of a value that is read again for each request.
    pub(crate) fn reread(option: &str, value: Arc<dyn Reread>) -> Self {
        Self::new(option, Provider::Reread(value))
    }

    /// Makes a source of a command's output.
    pub(crate) fn command(option: &str, command: Command) -> Self {
        Self::new(option, Provider::Command(command))
    }

    /// Makes a source of a line of libpq's password file.
    pub(crate) fn password_file(option: &str, file: PasswordFile) -> Self {
        Self::new(option, Provider::PasswordFile(file))
    }

    /// Makes a source of tokens of AWS' IAM.
    pub(crate) fn iam_token(option: &str, token: IamToken) -> Self {
        Self::new(option, Provider::IamToken(Arc::new(token)))
    }

    /// Makes a source of tokens of an identity provider.
    pub(crate) fn identity(option: &str, identity: Identity) -> Self {
        Self::new(option, Provider::Identity(Arc::new(identity)))
    }

    fn new(option: &str, provider: Provider) -> Self {
        Self { option: option.to_owned(), provider, limit: ANSWER_MAX, last: Arc::default() }
    }

    /// Sets how long one answer may take.
    #[must_use]
    pub(crate) const fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Returns the value of a literal.
    #[cfg(test)]
    pub(crate) const fn literal_value(&self) -> Option<&Secret> {
        match &self.provider {
            Provider::Literal(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the option that configures it.
    pub(crate) fn option(&self) -> &str {
        &self.option
    }

    /// Returns the option that configures it, if it can return another value than before.
    pub(crate) fn renewable(&self) -> Option<&str> {
        match self.provider {
            Provider::Absent | Provider::Literal(_) => None,
            Provider::Reread(_)
            | Provider::Command(_)
            | Provider::PasswordFile(_)
            | Provider::IamToken(_)
            | Provider::Identity(_) => Some(&self.option),
        }
    }

    /// Returns the credential for a new connection, or None when there is none.
    ///
    /// # Errors
    /// When the source fails, takes too long, or returns what has expired.
    pub(crate) async fn fetch(&self, target: &Target) -> Result<Option<Credential>, Error> {
        match &self.provider {
            Provider::Absent => return Ok(None),
            Provider::Literal(value) => {
                return Ok(Some(Credential { value: value.clone(), expires_at: None }));
            }
            _ => {}
        }
        let asked_at = Instant::now();
        let mut last = self.last.lock().await;
        if let Some(fetched) = last.as_ref().filter(|fetched| fetched.serves(asked_at, SystemTime::now())) {
            return Ok(Some(fetched.credential.clone()));
        }
        *last = None;
        let asked = tokio::time::timeout(self.limit, self.ask(target)).await;
        let overdue = |_| Error::Timeout { option: self.option.clone(), limit: self.limit };
        let Some(credential) = asked.map_err(overdue)?? else { return Ok(None) };
        let now = SystemTime::now();
        if credential.expires_at.is_some_and(|end| end <= now) {
            return Err(Error::Expired { option: self.option.clone() });
        }
        *last = Some(Fetched::new(credential.clone(), now));
        Ok(Some(credential))
    }

    /// Returns where the last credential came from and when it expires, for reports; None for a value of the configuration.
    pub(crate) async fn description(&self) -> Option<String> {
        let option = self.renewable()?;
        let last = self.last.lock().await;
        let credential = &last.as_ref()?.credential;
        let expiry = credential.expires_at.and_then(|end| jiff::Timestamp::try_from(end).ok());
        let named = self.holder().await.unwrap_or_else(|| format!("the password of {option}"));
        Some(match expiry {
            Some(end) => format!("{named}, which expires at {end}"),
            None => format!("{named}, which is asked for at each connection"),
        })
    }

    /// Returns the identity behind the last token, if only the source knows it.
    pub(super) async fn holder(&self) -> Option<String> {
        match &self.provider {
            Provider::IamToken(token) => {
                Some(format!("an AWS IAM token of access key {}", token.key_id().await?))
            }
            Provider::Identity(identity) => identity.description(),
            Provider::Absent
            | Provider::Literal(_)
            | Provider::Reread(_)
            | Provider::Command(_)
            | Provider::PasswordFile(_) => None,
        }
    }

    /// Returns whether its tokens are signatures that only AWS may see.
    pub(crate) const fn signs_for_aws(&self) -> bool {
        matches!(self.provider, Provider::IamToken(_))
    }

    /// Returns whether both ask the same identity provider, or neither asks one.
    pub(crate) fn has_identity_of(&self, other: &Self) -> bool {
        self.asked_identity() == other.asked_identity()
    }

    fn asked_identity(&self) -> Option<&Arc<Identity>> {
        if let Provider::Identity(identity) = &self.provider { Some(identity) } else { None }
    }

    /// Forgets a value that a server has refused, so that the next request asks the source.
    pub(crate) async fn forget(&self, refused: &Credential) {
        let mut last = self.last.lock().await;
        if last.as_ref().is_some_and(|fetched| fetched.credential == *refused) {
            *last = None;
            if let Provider::IamToken(token) = &self.provider {
                token.forget_keys().await;
            }
        }
    }

    /// Forgets a value of which only the text is known; one that a server has refused with what made it.
    pub(super) async fn forget_value(&self, value: &Secret, is_refused: bool) {
        let mut last = self.last.lock().await;
        if let (Provider::IamToken(token), true) = (&self.provider, is_refused) {
            token.forget_keys().await;
        }
        if last.as_ref().is_some_and(|fetched| fetched.credential.value == *value) {
            *last = None;
        }
    }

    async fn ask(&self, target: &Target) -> Result<Option<Credential>, Error> {
        let without_expiry = |value| Credential { value, expires_at: None };
        match &self.provider {
            Provider::Absent => Ok(None),
            Provider::Literal(value) => Ok(Some(without_expiry(value.clone()))),
            Provider::Reread(value) => {
                let value = Arc::clone(value);
                let read = tokio::task::spawn_blocking(move || value.reread()).await;
                let read = read.unwrap_or_else(|aborted| Err(aborted.into()));
                read.map(|value| Some(without_expiry(value))).map_err(|source| self.unreadable(source))
            }
            Provider::Command(command) => command.run(&self.option).await.map(Some),
            Provider::IamToken(token) => token
                .make(target)
                .await
                .map(Some)
                .map_err(|source| Error::Iam { option: self.option.clone(), source }),
            Provider::Identity(identity) => identity
                .token()
                .await
                .map(Some)
                .map_err(|source| Error::Identity { option: self.option.clone(), source: Box::new(source) }),
            Provider::PasswordFile(file) => {
                let (file, target) = (file.clone(), target.clone());
                let read = tokio::task::spawn_blocking(move || file.read(&target)).await;
                let read = read.unwrap_or_else(|aborted| Err(std::io::Error::other(aborted)));
                read.map(|value| value.map(without_expiry)).map_err(|source| self.unreadable(source.into()))
            }
        }
    }

    fn unreadable(&self, source: Box<dyn std::error::Error + Send + Sync>) -> Error {
        Error::Unreadable { option: self.option.clone(), source }
    }
}

impl Fetched {
    fn new(credential: Credential, now: SystemTime) -> Self {
        let renew_at = credential.expires_at.map(|end| {
            let life = end.duration_since(now).unwrap_or_default();
            let reserve = RESERVE.min(life / RESERVE_PART);
            end.checked_sub(reserve).unwrap_or(end)
        });
        Self { credential, at: Instant::now(), renew_at }
    }

    /// Reports whether a request needs no answer of its own: the value is valid, or was fetched while the request waited.
    fn serves(&self, asked_at: Instant, now: SystemTime) -> bool {
        self.renew_at.map_or(self.at >= asked_at, |renew_at| now < renew_at)
    }
}

impl From<Option<Secret>> for Source {
    /// Makes a source of the value of `database.password`, or of its absence.
    fn from(password: Option<Secret>) -> Self {
        const OPTION: &str = "database.password";
        password.map_or_else(|| Self::absent(OPTION), |value| Self::literal(OPTION, value))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts how often it is read.
    #[derive(Debug, Default)]
    struct Counter(AtomicUsize);

    impl Reread for Counter {
        fn reread(&self) -> Result<Secret, Box<dyn std::error::Error + Send + Sync>> {
            Ok(Secret::new(self.0.fetch_add(1, Ordering::Relaxed).to_string()))
        }
    }

    fn target() -> Target {
        Target { host: "db".into(), port: 5432, database: "orders".into(), user: "relay".into() }
    }

    fn run<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    fn command(script: &str, limit_ms: u64) -> Source {
        let command = Command::parse(&format!("sh -c '{script}'")).unwrap();
        Source::command("the.command", command).within(Duration::from_millis(limit_ms))
    }

    async fn value(source: &Source) -> String {
        source.fetch(&target()).await.unwrap().unwrap().value.expose().to_owned()
    }

    #[test]
    fn a_value_without_expiry_is_read_at_each_connection() {
        run(async {
            let source = Source::reread("database.password", Arc::new(Counter::default()));
            assert_eq!((value(&source).await, value(&source).await), ("0".into(), "1".into()));
            assert_eq!(source.renewable(), Some("database.password"));
        });
    }

    #[test]
    fn a_value_with_an_expiry_is_used_until_shortly_before_it() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let later = |seconds| now + Duration::from_secs(seconds);
        for (life, renewed_after) in [(900, 840), (100, 80), (10, 8)] {
            let credential = Credential { value: Secret::new("t"), expires_at: Some(later(life)) };
            let fetched = Fetched::new(credential, now);
            let asked_at = Instant::now() + Duration::from_secs(1);
            assert!(fetched.serves(asked_at, later(renewed_after - 1)), "{life}");
            assert!(!fetched.serves(asked_at, later(renewed_after)), "{life}");
        }
    }

    #[test]
    fn a_refused_value_is_forgotten() {
        run(async {
            let script = "n=$(date +%N); echo {\\\"token\\\":\\\"$n\\\",\\\"expires_in\\\":900}";
            let source = command(script, 5_000);
            let first = source.fetch(&target()).await.unwrap().unwrap();
            assert_eq!(source.fetch(&target()).await.unwrap().unwrap(), first);
            source.forget(&first).await;
            assert_ne!(source.fetch(&target()).await.unwrap().unwrap(), first);
        });
    }

    #[test]
    fn a_command_that_fails_is_named_without_its_output() {
        run(async {
            let cases = [
                ("echo s3cret; exit 3", 5_000, "the.command: sh failed (exit status: 3)"),
                ("sleep 60", 100, "the.command did not answer within 100ms"),
                (
                    "printf \"s3cret\\ns3cret\"",
                    5_000,
                    "the.command: the answer has more than one line and is not JSON",
                ),
                (
                    "trap \"\" PIPE; head -c 70000 /dev/zero | tr \\\\0 x; exit 0",
                    5_000,
                    "the.command: the answer has 64 KiB or more",
                ),
                (
                    "echo {\\\"token\\\":\\\"s3cret\\\",\\\"expires_on\\\":1}",
                    5_000,
                    "the.command returned a credential that has expired",
                ),
            ];
            for (script, limit_ms, expected) in cases {
                let error = command(script, limit_ms).fetch(&target()).await.unwrap_err();
                assert_eq!(error.to_string(), expected, "{script}");
                assert!(!error.fix().contains("s3cret"));
            }
            let absent = Command::parse("/no/such/program s3cret").unwrap();
            let source = Source::command("the.command", absent);
            assert!(!format!("{source:?}").contains("s3cret"));
            let error = source.fetch(&target()).await.unwrap_err();
            assert_eq!(error.to_string(), "the.command: /no/such/program cannot be run");
        });
    }
}
