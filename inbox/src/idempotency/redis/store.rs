//! Store in Redis.

use std::time::Duration;

use redis::Value;

use super::super::answer::Answer;
use super::super::claim::{BeginOutcome, BeginRequest, Claim, ExtendOutcome, Fence, FinishOutcome, Outcome};
use super::super::key::Key;
use super::super::store::{Store, StoreError};
use crate::redis::{Script, Servers};

const STORE: &str = "Redis";

/// Records in Redis. A new request takes two round trips, a repeat takes one.
///
/// After a crash Redis may have lost writes that it has acknowledged: `appendonly yes` limits that to one second, `appendfsync always`
/// excludes it.
#[derive(Debug)]
pub struct RedisStore {
    servers: Servers,
    prefix: String,
    begin: Script,
    extend: Script,
    finish: Script,
}

impl RedisStore {
    /// Creates a store on these servers, under names that begin with `idempotency:`.
    #[must_use]
    pub fn new(servers: Servers) -> Self {
        Self {
            servers,
            prefix: "idempotency".to_owned(),
            begin: Script::new("begin", include_str!("begin.lua")),
            extend: Script::new("extend", include_str!("extend.lua")),
            finish: Script::new("finish", include_str!("finish.lua")),
        }
    }

    /// Sets another prefix of all names.
    #[must_use]
    pub fn prefix(mut self, prefix: impl Into<String>) -> Self {
        self.prefix = prefix.into();
        self
    }

    /// Returns the name of a record. The length distinguishes the key `a:b` in scope `c` from the key `b` in scope `c:a`.
    fn name(&self, key: &Key) -> String {
        format!("{}:{}:{}:{}", self.prefix, key.scope().len(), key.scope(), key.name())
    }

    async fn run(&self, script: &Script, key: &Key, arguments: &[&[u8]]) -> Result<Value, StoreError> {
        let answer = self.servers.run(script, &self.name(key), arguments).await;
        answer.map_err(|error| StoreError::Failed {
            store: STORE,
            doing: script.name(),
            source: Box::new(error),
        })
    }
}

impl Store for RedisStore {
    async fn begin(&self, key: &Key, entry: &BeginRequest) -> Result<BeginOutcome, StoreError> {
        let owner = entry.owner.to_string();
        let lease = entry.lease.as_micros().to_string();
        let keep = entry.keep.max(entry.lease).as_millis().to_string();
        let arguments: [&[u8]; 4] =
            [owner.as_bytes(), entry.fingerprint.as_bytes(), lease.as_bytes(), keep.as_bytes()];
        let answer = self.run(&self.begin, key, &arguments).await?;
        read(answer, key, entry).ok_or(StoreError::Unreadable { store: STORE })
    }

    async fn extend(&self, claim: &Claim, lease: Duration) -> Result<ExtendOutcome, StoreError> {
        let owner = claim.owner.to_string();
        let fence = claim.fence.get().to_string();
        let (micros, millis) = (lease.as_micros().to_string(), lease.as_millis().to_string());
        let arguments = [owner.as_bytes(), fence.as_bytes(), micros.as_bytes(), millis.as_bytes()];
        let answer = self.run(&self.extend, &claim.key, &arguments).await?;
        match text(&answer) {
            Some("extended") => Ok(ExtendOutcome::Extended),
            Some("ended") => Ok(ExtendOutcome::AlreadyFinished),
            Some("fenced") => Ok(ExtendOutcome::Fenced),
            _ => Err(StoreError::Unreadable { store: STORE }),
        }
    }

    async fn finish(
        &self,
        claim: &Claim,
        ending: &Outcome,
        keep: Duration,
    ) -> Result<FinishOutcome, StoreError> {
        let owner = claim.owner.to_string();
        let fence = claim.fence.get().to_string();
        let keep = keep.as_millis().to_string();
        let (state, answer) = match ending {
            Outcome::Completed(answer) => ("completed", Some(answer.to_bytes())),
            Outcome::Failed(answer) => ("failed", Some(answer.to_bytes())),
            Outcome::Retryable => ("open", None),
        };
        let mut arguments = vec![owner.as_bytes(), fence.as_bytes(), state.as_bytes(), keep.as_bytes()];
        arguments.extend(answer.as_deref());
        let answer = self.run(&self.finish, &claim.key, &arguments).await?;
        match text(&answer) {
            Some("written") => Ok(FinishOutcome::Written),
            Some("otherwise") => Ok(FinishOutcome::AlreadyFinished),
            Some("fenced") => Ok(FinishOutcome::Fenced),
            _ => Err(StoreError::Unreadable { store: STORE }),
        }
    }
}

fn read(answer: Value, key: &Key, entry: &BeginRequest) -> Option<BeginOutcome> {
    let Value::Array(values) = answer else { return None };
    Some(match (text(values.first()?)?, values.get(1..)?) {
        ("run", [Value::Int(fence), Value::Int(attempt)]) => BeginOutcome::Run(Claim {
            key: key.clone(),
            owner: entry.owner,
            fence: Fence::from(*fence),
            attempt: u32::try_from(*attempt).ok()?,
        }),
        ("started", [Value::Int(left)]) => {
            BeginOutcome::InFlight { left: Duration::from_micros(u64::try_from(*left).ok()?) }
        }
        ("completed", [Value::BulkString(answer)]) => BeginOutcome::Completed(Answer::from_bytes(answer)?),
        ("failed", [Value::BulkString(answer)]) => BeginOutcome::Failed(Answer::from_bytes(answer)?),
        ("mismatch", []) => BeginOutcome::Mismatch,
        _ => return None,
    })
}

fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => std::str::from_utf8(bytes).ok(),
        Value::SimpleString(text) => Some(text),
        _ => None,
    }
}
