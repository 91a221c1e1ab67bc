//! Items of DynamoDB.

use std::time::Duration;

use super::super::answer::Answer;
use super::super::claim::{Claim, Fence, Outcome, Owner};
use super::super::fingerprint::Fingerprint;
use super::super::key::Key;
use super::super::record::{Record, State};
use super::table::{Attribute, Item, Update};

/// Condition that the item still belongs to the claim. DynamoDB deletes expired items later, so an expired one may still exist.
const IS_CLAIMED: &str =
    "claimed_by = :owner AND fence = :fence AND record_state = :started AND expires > :now";

const SET_ALL: &str = "SET record_state = :state, claimed_by = :owner, fence = :fence, attempts = :attempts, \
     fingerprint = :fingerprint, lease_end = :lease_end, expires = :expires";

const IS_AS_BEFORE: &str = "record_state = :old_state AND claimed_by = :old_owner AND fence = :old_fence \
     AND lease_end = :old_lease_end";

/// Returns the update that writes a record that has just begun in the place of the record that was found.
pub(super) fn begin(key: &Key, record: &Record, found: Option<&Record>) -> Update {
    let mut values = Item::new();
    put(&mut values, "", record);
    values.insert(":attempts".into(), Attribute::Number(record.attempts.into()));
    values.insert(":fingerprint".into(), Attribute::Bytes(record.fingerprint.as_bytes().to_vec()));
    values.insert(":expires".into(), Attribute::Number(seconds(record.expires)));
    let condition = match found {
        None => "attribute_not_exists(id)",
        Some(found) => {
            put(&mut values, "old_", found);
            IS_AS_BEFORE
        }
    };
    Update { id: id(key), expression: SET_ALL.to_owned(), condition: condition.to_owned(), values }
}

pub(super) fn extend(claim: &Claim, now: Duration, lease: Duration) -> Update {
    let mut values = of(claim, now);
    values.insert(":lease_end".into(), Attribute::Number(micros(now + lease)));
    Update {
        id: id(&claim.key),
        expression: "SET lease_end = :lease_end".to_owned(),
        condition: IS_CLAIMED.to_owned(),
        values,
    }
}

pub(super) fn finish(claim: &Claim, now: Duration, ending: &Outcome, keep: Duration) -> Update {
    let mut values = of(claim, now);
    let (state, answer) = match ending {
        Outcome::Completed(answer) => ("completed", Some(answer)),
        Outcome::Failed(answer) => ("failed", Some(answer)),
        Outcome::Retryable => ("open", None),
    };
    values.insert(":state".into(), Attribute::Text(state.to_owned()));
    values.insert(":expires".into(), Attribute::Number(seconds(now + keep)));
    let mut expression = "SET record_state = :state, expires = :expires".to_owned();
    if let Some(answer) = answer {
        values.insert(":answer".into(), Attribute::Bytes(answer.to_bytes()));
        expression += ", answer = :answer";
    }
    Update { id: id(&claim.key), expression, condition: IS_CLAIMED.to_owned(), values }
}

/// Reads the record in an item; `None` if the item is not a record.
pub(super) fn read(item: &Item) -> Option<Record> {
    let text =
        |name: &str| if let Attribute::Text(text) = item.get(name)? { Some(text.as_str()) } else { None };
    let number =
        |name: &str| if let Attribute::Number(number) = item.get(name)? { Some(*number) } else { None };
    let bytes =
        |name: &str| if let Attribute::Bytes(bytes) = item.get(name)? { Some(&bytes[..]) } else { None };
    let answer = || Answer::from_bytes(bytes("answer")?);
    let lease_end = Duration::from_micros(u64::try_from(number("lease_end")?).ok()?);
    Some(Record {
        fingerprint: Fingerprint::from_bytes(bytes("fingerprint")?)?,
        owner: Owner::from(u128::from_str_radix(text("claimed_by")?, 16).ok()?),
        fence: Fence::from(number("fence")?),
        attempts: u32::try_from(number("attempts")?).ok()?,
        lease_end,
        state: match text("record_state")? {
            "started" => State::Started,
            "completed" => State::Completed(answer()?),
            "failed" => State::Failed(answer()?),
            "open" => State::Open,
            _ => return None,
        },
        expires: Duration::from_secs(u64::try_from(number("expires")?).ok()?),
    })
}

fn put(values: &mut Item, prefix: &str, record: &Record) {
    let state = match record.state {
        State::Started => "started",
        State::Completed(_) => "completed",
        State::Failed(_) => "failed",
        State::Open => "open",
    };
    values.insert(format!(":{prefix}state"), Attribute::Text(state.to_owned()));
    values.insert(format!(":{prefix}owner"), Attribute::Text(record.owner.to_string()));
    values.insert(format!(":{prefix}fence"), Attribute::Number(record.fence.get()));
    values.insert(format!(":{prefix}lease_end"), Attribute::Number(micros(record.lease_end)));
}

fn of(claim: &Claim, now: Duration) -> Item {
    [
        (":owner", Attribute::Text(claim.owner.to_string())),
        (":fence", Attribute::Number(claim.fence.get())),
        (":started", Attribute::Text("started".to_owned())),
        (":now", Attribute::Number(i64::try_from(now.as_secs()).unwrap_or(i64::MAX))),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into()
}

/// Returns the partition key of a record. The length distinguishes the key `a:b` in scope `c` from the key `b` in scope `c:a`.
fn id(key: &Key) -> String {
    format!("{}:{}:{}", key.scope().len(), key.scope(), key.name())
}

fn micros(time: Duration) -> i64 {
    i64::try_from(time.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the time in seconds, rounded up, as DynamoDB requires it for the time to live.
fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_millis().div_ceil(1000)).unwrap_or(i64::MAX)
}
