//! Tokens for clients that ask from a thread of their own, which must not wait for a source that is slow.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use super::jwt::{self, Claims};
use super::source::{Credential, Source, Target};
use crate::error::chain;
use crate::secret::Secret;

/// Life of a token whose source names no expiry, and that has none in it.
const LIFE_DEFAULT: Duration = Duration::from_secs(60);

/// Longest wait of a client for the first answer, and for a later one when its token has expired.
const FIRST_WAIT: Duration = Duration::from_secs(5);
const LATER_WAIT: Duration = Duration::from_millis(200);

/// A token that is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    /// The token.
    pub value: Secret,
    /// Its subject, as far as it can be read.
    pub subject: Option<String>,
    /// The identity behind it, if only the source knows it.
    identity: Option<String>,
    /// The time until which it is used.
    pub expires_at: SystemTime,
    /// The expiry is known, and not assumed.
    is_expiry_known: bool,
    fetched_at: SystemTime,
}

/// The source of tokens that all clients of a configuration share.
///
/// A client is never kept waiting while a token is valid: after half of its life another one is asked for in the background.
#[derive(Debug, Clone)]
pub struct Tokens(Arc<Shared>);

/// The number of the next source.
static NUMBER: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
struct Shared {
    number: u64,
    source: Source,
    target: Target,
    state: Mutex<State>,
    answered: Condvar,
}

#[derive(Debug, Default)]
struct State {
    token: Option<Token>,
    /// Reason for which the last request failed.
    failure: Option<String>,
    is_asking: bool,
    /// A server has refused the token.
    is_refused: bool,
}

impl Tokens {
    /// Makes tokens of a source; `servers` are those that they are for.
    pub(crate) fn new(source: Source, servers: &str) -> Self {
        let (host, empty) = (servers.to_owned(), String::new);
        let target = Target { host, port: 0, database: empty(), user: empty() };
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        Self(Arc::new(Shared { number, source, target, state: Mutex::default(), answered: Condvar::new() }))
    }

    /// Returns the number of this source in the process.
    pub(crate) fn number(&self) -> u64 {
        self.0.number
    }

    /// Returns the source itself, for a client that may wait.
    pub(crate) fn source(&self) -> Source {
        self.0.source.clone()
    }

    /// Returns a valid token, at once if there is one.
    ///
    /// # Errors
    /// The reason for which there is none, with the option of the source.
    pub(crate) fn current(&self) -> Result<Token, String> {
        let mut state = self.lock();
        let now = SystemTime::now();
        let patience = match (&state.token, &state.failure) {
            (Some(token), _) if now < token.expires_at && !state.is_refused => {
                let token = token.clone();
                if token.is_half_over(now) {
                    self.ask(&mut state);
                }
                return Ok(token);
            }
            (None, None) => FIRST_WAIT,
            _ => LATER_WAIT,
        };
        self.ask(&mut state);
        let waited = self.0.answered.wait_timeout_while(state, patience, |state| state.is_asking);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        match &state.token {
            Some(token) if SystemTime::now() < token.expires_at => Ok(token.clone()),
            _ => Err(state
                .failure
                .clone()
                .unwrap_or_else(|| format!("{} has not answered yet", self.0.source.option()))),
        }
    }

    /// Records that a server has refused the token: another one is asked for.
    pub(crate) fn refuse(&self) {
        self.lock().is_refused = true;
    }

    /// Returns the token's source, identity and expiry, for reports.
    pub(crate) fn description(&self) -> Option<String> {
        let state = self.lock();
        let token = state.token.as_ref()?;
        let option = self.0.source.option();
        let mut text = match (&token.identity, &token.subject) {
            (Some(identity), _) => identity.clone(),
            (None, Some(subject)) => format!("a token of {option} for {subject:?}"),
            (None, None) => format!("a token of {option}"),
        };
        let expiry = jiff::Timestamp::try_from(token.expires_at).ok().filter(|_| token.is_expiry_known);
        if let Some(end) = expiry.and_then(|end| end.round(jiff::Unit::Second).ok()) {
            text += &format!(", which expires at {end}");
        }
        Some(text)
    }

    /// Asks the source on a thread of its own, which ends at the source's time limit.
    fn ask(&self, state: &mut State) {
        if state.is_asking {
            return;
        }
        let shared = Arc::clone(&self.0);
        let asking = thread::Builder::new().name("token".to_owned()).spawn(move || shared.fetch());
        match asking {
            Ok(_) => state.is_asking = true,
            Err(error) => state.failure = Some(format!("{}: {error}", self.0.source.option())),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock()
    }
}

impl Shared {
    fn fetch(&self) {
        let (last, is_refused) = {
            let state = self.lock();
            (state.token.clone(), state.is_refused)
        };
        let fetched = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| format!("{}: {error}", self.source.option()))
            .and_then(|runtime| runtime.block_on(self.fetch_other_than(last.as_ref(), is_refused)));
        let mut state = self.lock();
        match fetched {
            Ok(token) => {
                let is_other = state.token.as_ref().is_none_or(|last| last.value != token.value);
                if state.failure.take().is_some() {
                    tracing::info!(component = "credentials", "{} answers again", self.source.option());
                }
                if is_other {
                    tracing::debug!(component = "credentials", "{} has another token", self.source.option());
                    state.is_refused = false;
                    state.token = Some(token);
                }
            }
            Err(reason) => {
                if state.failure.as_ref() != Some(&reason) {
                    tracing::warn!(component = "credentials", error = reason, "no token; asking again");
                }
                state.failure = Some(reason);
            }
        }
        state.is_asking = false;
        drop(state);
        self.answered.notify_all();
    }

    /// Asks the source itself, which may remember the last answer.
    async fn fetch_other_than(&self, last: Option<&Token>, is_refused: bool) -> Result<Token, String> {
        if let Some(last) = last {
            self.source.forget_value(&last.value, is_refused).await;
        }
        let fetched = self.source.fetch(&self.target).await.map_err(|error| chain(&error))?;
        let credential = fetched.ok_or_else(|| format!("{} has no token", self.source.option()))?;
        let now = SystemTime::now();
        let token = Token { identity: self.source.holder().await, ..Token::new(credential, now) };
        if token.expires_at <= now {
            return Err(format!("{} returned a token that has expired", self.source.option()));
        }
        Ok(token)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Token {
    fn new(credential: Credential, now: SystemTime) -> Self {
        let Claims { subject, expires_at } = jwt::claims(credential.value.expose()).unwrap_or_default();
        let known = credential.expires_at.into_iter().chain(expires_at).min();
        let assumed = now.checked_add(LIFE_DEFAULT).unwrap_or(now);
        Self {
            value: credential.value,
            subject,
            identity: None,
            expires_at: known.unwrap_or(assumed),
            is_expiry_known: known.is_some(),
            fetched_at: now,
        }
    }

    fn is_half_over(&self, now: SystemTime) -> bool {
        let life = self.expires_at.duration_since(self.fetched_at).unwrap_or_default();
        self.expires_at.duration_since(now).unwrap_or_default() < life / 2
    }
}

#[cfg(test)]
mod tests;
