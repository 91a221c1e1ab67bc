//! Makes records of changes in the same way as `run`.

use crate::change::{ChangeContext, ChangeRecords, ChangeTable, RowChange, SkippedHalves, Snapshot};
use crate::cli::prove::verify::error::VerifyError;
use crate::connect::converter::registered::{Registration, Side};
use crate::connect::converter::{ConvertError, Destination};
use crate::kafka::positive_hash;
use crate::outbox::{Encoder, RouteError};
use crate::registry::{Registries, Schemas};
use crate::verification::Spot;
use crate::wal::{Lsn, PgTimestamp, Xid};

/// Renderer of records, which requests their schemas from the registry.
pub(super) struct Renderer<'r> {
    registries: &'r Registries,
    schemas: Schemas,
    encoder: Encoder,
}

/// A record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rendered {
    pub(super) topic: String,
    pub(super) partition: Option<i32>,
    pub(super) timestamp_ms: i64,
    /// Bytes of the key: they decide the partition.
    pub(super) key: Option<Vec<u8>>,
    /// Decoded key.
    pub(super) key_text: Option<Vec<u8>>,
    /// Decoded value, or its bytes.
    pub(super) value: Option<Vec<u8>>,
    pub(super) headers: Vec<(String, Option<Vec<u8>>)>,
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

/// Makes the context of a fictitious change. Nothing in it is the same for another `number`.
pub(super) fn context(number: u32, snapshot: Snapshot) -> ChangeContext {
    ChangeContext {
        now_us: i64::from(number).saturating_mul(86_400_000_000),
        commit_time: PgTimestamp(i64::from(number).saturating_mul(1_000_000)),
        xid: Some(Xid(number)),
        lsn: Lsn::new(u64::from(number)),
        last_commit: Some(Lsn::new(u64::from(number))),
        before: None,
        origin: None,
        xmin: None,
        snapshot,
        skipped: SkippedHalves::default(),
        tolerates: false,
    }
}

impl<'r> Renderer<'r> {
    pub(super) fn new(registries: &'r Registries) -> Self {
        Self { registries, schemas: Schemas::new(registries), encoder: Encoder::default() }
    }

    /// Renders the records of a change, and decodes their keys and values; or returns why there are none.
    pub(super) async fn render(
        &mut self,
        table: &ChangeTable,
        change: RowChange<'_, '_>,
        at: &ChangeContext,
    ) -> Result<Result<Vec<Rendered>, RouteError>, VerifyError> {
        match self.render_bytes(table, change, at).await? {
            Ok(records) => Ok(Ok(self.read(records).await?)),
            refused => Ok(refused),
        }
    }

    /// Renders the records as bytes.
    pub(super) async fn render_bytes(
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
                made => return Ok(made),
            }
        }
    }

    /// Decodes keys and values, as consumers do.
    async fn read(&mut self, mut records: Vec<Rendered>) -> Result<Vec<Rendered>, VerifyError> {
        for record in &mut records {
            record.key_text = self.text(Side::Key, record.key.clone()).await?;
            record.value = self.text(Side::Value, record.value.take()).await?;
        }
        Ok(records)
    }

    async fn text(&mut self, side: Side, bytes: Option<Vec<u8>>) -> Result<Option<Vec<u8>>, VerifyError> {
        let Some(bytes) = bytes else { return Ok(None) };
        loop {
            let id = match self.schemas.read(side, &bytes) {
                Ok(written) => return Ok(Some(written.or(&bytes).into_owned())),
                Err(id) => id,
            };
            let schema = self.registries.schema(side, id).await?;
            self.schemas.learn(side, id, schema.as_ref());
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
                timestamp_ms: record.timestamp_ms,
                key: record.key.map(<[u8]>::to_vec),
                key_text: None,
                value: record.value.map(<[u8]>::to_vec),
                headers: record
                    .headers
                    .iter()
                    .map(|header| (header.name.to_owned(), header.value.map(<[u8]>::to_vec)))
                    .collect(),
            });
            owned.collect()
        }))
    }
}
