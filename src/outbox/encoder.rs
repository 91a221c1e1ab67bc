use super::expand::KnownSchemas;
use super::topic::TopicCache;
use crate::connect::converter::registered::{Registration, SchemaId, SchemaIds};

/// The space in which rows are converted, reused from row to row.
#[derive(Debug, Default)]
pub struct Encoder {
    pub(super) scratch: Vec<u8>,
    pub(super) topics: TopicCache,
    pub(super) schemas: SchemaIds,
    pub(super) structures: KnownSchemas,
}

impl Encoder {
    /// Scratch space that is kept; what a large row took beyond it is given back.
    const KEPT_BYTES_MAX: usize = 1 << 20;

    /// Remembers the id of a schema that a row could not do without.
    pub fn learn(&mut self, registration: Registration, id: SchemaId) {
        self.schemas.learn(registration, id);
    }

    /// The ids that were learnt, for records that are no rows.
    pub const fn schemas(&mut self) -> &mut SchemaIds {
        &mut self.schemas
    }

    /// Empty scratch space and the ids that were learnt, for what is no event of an outbox.
    pub fn parts(&mut self) -> (&mut Vec<u8>, &mut SchemaIds) {
        self.start_row();
        (&mut self.scratch, &mut self.schemas)
    }

    /// What was written for the last row.
    #[must_use]
    pub fn scratch(&self) -> &[u8] {
        &self.scratch
    }

    pub(super) fn start_row(&mut self) {
        self.scratch.clear();
        self.scratch.shrink_to(Self::KEPT_BYTES_MAX);
    }
}
