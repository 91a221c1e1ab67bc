//! Makes records of changes as `run` makes them.

use crate::change::{ChangeContext, ChangeRecords, ChangeTable, RowChange, SkippedHalves, Snapshot};
use crate::cli::verify::error::VerifyError;
use crate::connect::converter::registered::Registration;
use crate::connect::converter::{ConvertError, Destination};
use crate::kafka::positive_hash;
use crate::outbox::{Encoder, RouteError};
use crate::registry::Registries;
use crate::verification::Spot;
use crate::wal::{Lsn, PgTimestamp, Xid};

/// Makes records, and asks the registry for what they need.
pub(super) struct Renderer<'r> {
    registries: &'r Registries,
    encoder: Encoder,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rendered {
    pub(super) topic: String,
    pub(super) partition: Option<i32>,
    pub(super) key: Option<Vec<u8>>,
    pub(super) value: Option<Vec<u8>>,
}

impl Rendered {
    pub(super) fn spot(&self) -> Spot {
        match (self.partition, &self.key) {
            (Some(partition), _) => Spot::Decided(partition),
            (None, Some(key)) => Spot::Hashed(positive_hash(key)),
            (None, None) => Spot::Any,
        }
    }
}

/// When and where a change that never was has happened. Nothing in it is the same for another `number`.
pub(super) fn context(number: u32, snapshot: Snapshot) -> ChangeContext {
    ChangeContext {
        now_us: i64::from(number).saturating_mul(86_400_000_000),
        commit_time: PgTimestamp(i64::from(number).saturating_mul(1_000_000)),
        xid: Some(Xid(number)),
        lsn: Lsn::new(u64::from(number)),
        last_commit: Some(Lsn::new(u64::from(number))),
        before: None,
        snapshot,
        skipped: SkippedHalves::default(),
        tolerates: false,
    }
}

impl<'r> Renderer<'r> {
    pub(super) fn new(registries: &'r Registries) -> Self {
        Self { registries, encoder: Encoder::default() }
    }

    /// The records of a change; or why there are none.
    pub(super) async fn render(
        &mut self,
        table: &ChangeTable,
        change: RowChange<'_, '_>,
        at: &ChangeContext,
    ) -> Result<Result<Vec<Rendered>, RouteError>, VerifyError> {
        loop {
            match self.render_once(table, change, at) {
                Err(RouteError::Convert { source: ConvertError::Unregistered(registration), .. }) => {
                    self.register(*registration).await?;
                }
                done => return Ok(done),
            }
        }
    }

    async fn register(&mut self, registration: Registration) -> Result<(), VerifyError> {
        let id = self.registries.id(&registration).await?;
        self.encoder.learn(registration, id);
        Ok(())
    }

    fn render_once(
        &mut self,
        table: &ChangeTable,
        change: RowChange<'_, '_>,
        at: &ChangeContext,
    ) -> Result<Vec<Rendered>, RouteError> {
        let (scratch, schemas) = self.encoder.parts();
        let mut into = Destination { scratch, topic: "", schemas };
        let mut records = ChangeRecords::default();
        table.add(change, at, &mut records, &mut into)?;
        Ok(records.lend(self.encoder.scratch(), |records| {
            let owned = records.iter().map(|record| Rendered {
                topic: record.topic.to_owned(),
                partition: record.partition,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
            });
            owned.collect()
        }))
    }
}
