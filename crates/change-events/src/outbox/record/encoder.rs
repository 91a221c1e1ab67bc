//! Buffers for the conversion of rows.

use crate::outbox::expand::KnownSchemas;
use crate::outbox::topic::TopicCache;
use connect_data::converter::registered::{Registration, SchemaId, SchemaIds};

/// The buffers for the conversion of rows, reused from row to row.
#[derive(Debug, Default)]
pub struct Encoder {
    pub(in crate::outbox) scratch: Vec<u8>,
    pub(in crate::outbox) topics: TopicCache,
    pub(in crate::outbox) schemas: SchemaIds,
    pub(in crate::outbox) structures: KnownSchemas,
}

impl Encoder {
    /// Largest scratch space that is retained between rows, in bytes; the rest is freed.
    const KEPT_BYTES_MAX: usize = 1 << 20;

    /// Stores the id of a schema that the conversion of a row needs.
    pub fn learn(&mut self, registration: Registration, id: SchemaId) {
        self.schemas.learn(registration, id);
    }

    /// Returns the stored schema ids, for records that are no rows.
    pub const fn schemas(&mut self) -> &mut SchemaIds {
        &mut self.schemas
    }

    /// Empties the scratch space; returns it and the stored schema ids, for records that are no events of an
    /// outbox.
    pub fn parts(&mut self) -> (&mut Vec<u8>, &mut SchemaIds) {
        self.start_row();
        (&mut self.scratch, &mut self.schemas)
    }

    /// Returns the bytes that were written for the last row.
    #[must_use]
    pub fn scratch(&self) -> &[u8] {
        &self.scratch
    }

    pub(in crate::outbox) fn start_row(&mut self) {
        self.scratch.clear();
        self.scratch.shrink_to(Self::KEPT_BYTES_MAX);
    }
}
