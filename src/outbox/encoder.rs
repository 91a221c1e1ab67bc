use super::topic::TopicCache;

/// The space in which rows are converted, reused from row to row.
#[derive(Debug, Default)]
pub struct Encoder {
    pub(super) scratch: Vec<u8>,
    pub(super) topics: TopicCache,
}

impl Encoder {
    /// Scratch space that is kept; what a large row took beyond it is given back.
    const KEPT_BYTES_MAX: usize = 1 << 20;

    pub(super) fn start_row(&mut self) {
        self.scratch.clear();
        self.scratch.shrink_to(Self::KEPT_BYTES_MAX);
    }
}
