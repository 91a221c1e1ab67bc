//! The limit of records in flight, by number and by bytes.

/// Limits of what may be handed to the producer and not yet be acknowledged. A full window stops the reading
/// of the socket.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    records: usize,
    bytes: usize,
    records_max: usize,
    bytes_max: usize,
}

impl Window {
    /// Creates an empty window with these limits; at least one record always fits.
    #[must_use]
    pub(crate) const fn new(records_max: usize, bytes_max: usize) -> Self {
        Self { records: 0, bytes: 0, records_max, bytes_max }
    }

    /// Returns whether a further record may be handed over. A record larger than the whole limit may be in
    /// flight alone.
    #[must_use]
    pub(crate) const fn has_room(&self) -> bool {
        self.records < self.records_max && self.bytes < self.bytes_max || self.records == 0
    }

    /// Returns whether half of it is used.
    #[must_use]
    pub(crate) const fn is_half_full(&self) -> bool {
        self.records >= self.records_max.div_ceil(2) || self.bytes >= self.bytes_max.div_ceil(2)
    }

    /// Counts a record of `bytes` in.
    pub(crate) const fn enter(&mut self, bytes: usize) {
        self.records = self.records.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Counts `records` with `bytes` together out.
    pub(crate) fn leave(&mut self, records: usize, bytes: usize) {
        debug_assert!(records <= self.records && bytes <= self.bytes, "more left the window than entered it");
        self.records = self.records.saturating_sub(records);
        self.bytes = self.bytes.saturating_sub(bytes);
    }

    /// Records in flight.
    #[must_use]
    pub(crate) const fn records(&self) -> usize {
        self.records
    }

    /// Returns the number of their bytes.
    #[must_use]
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}
