//! Store in DynamoDB.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::super::claim::{BeginOutcome, BeginRequest, Claim, ExtendOutcome, FinishOutcome, Outcome};
use super::super::key::Key;
use super::super::record::Record;
use super::super::store::{Store, StoreError};
use super::item;
use super::table::{Table, Update, Updated};

const STORE: &str = "DynamoDB";

/// Maximum difference between the clocks of the services.
const CLOCKS_DIFFER_MAX: Duration = Duration::from_secs(2);

/// Maximum number of attempts at a begin, if other owners change the item in between.
const ASKS_MAX: u32 = 4;

/// Records in DynamoDB. A new request takes two round trips, a repeat takes one, a take-over takes three.
///
/// The end of a lease is checked with the clock of the service that takes over. Each lease is stored two seconds longer than requested.
/// Clocks that differ by more than that can let two owners work at the same time; the fence of the second one is still the greater one.
#[derive(Debug)]
pub struct DynamoDbStore<T> {
    table: T,
}

impl<T: Table> DynamoDbStore<T> {
    /// Creates a store in this table.
    #[must_use]
    pub fn new(table: T) -> Self {
        Self { table }
    }

    async fn update(&self, doing: &'static str, update: Update) -> Result<Updated, StoreError> {
        self.table.update(update).await.map_err(|source| StoreError::Failed { store: STORE, doing, source })
    }
}

impl<T: Table> Store for DynamoDbStore<T> {
    async fn begin(&self, key: &Key, entry: &BeginRequest) -> Result<BeginOutcome, StoreError> {
        let entry = BeginRequest { lease: entry.lease + CLOCKS_DIFFER_MAX, ..*entry };
        let mut found = None;
        for _ in 0..ASKS_MAX {
            let mut record = found.clone();
            let begun = Record::begin(&mut record, now(), key, &entry);
            let (BeginOutcome::Run(_), Some(record)) = (&begun, record) else { return Ok(begun) };
            match self.update("begin", item::begin(key, &record, found.as_ref())).await? {
                Updated::Done => return Ok(begun),
                Updated::Refused(item) => found = read(item)?,
            }
        }
        // Other owners changed the item during each attempt.
        Ok(BeginOutcome::InFlight { left: Duration::ZERO })
    }

    async fn extend(&self, claim: &Claim, lease: Duration) -> Result<ExtendOutcome, StoreError> {
        let update = item::extend(claim, now(), lease + CLOCKS_DIFFER_MAX);
        match self.update("extend", update).await? {
            Updated::Done => Ok(ExtendOutcome::Extended),
            Updated::Refused(item) => Ok(Record::extend(&mut read(item)?, now(), claim, lease)),
        }
    }

    async fn finish(
        &self,
        claim: &Claim,
        ending: &Outcome,
        keep: Duration,
    ) -> Result<FinishOutcome, StoreError> {
        match self.update("finish", item::finish(claim, now(), ending, keep)).await? {
            Updated::Done => Ok(FinishOutcome::Written),
            // The outcome may have been stored by an earlier call.
            Updated::Refused(item) => Ok(Record::finish(&mut read(item)?, now(), claim, ending, keep)),
        }
    }
}

fn read(item: Option<super::table::Item>) -> Result<Option<Record>, StoreError> {
    let read = |item| item::read(&item).ok_or(StoreError::Unreadable { store: STORE });
    item.map(read).transpose()
}

fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}
