//! A pass over the partitions of an outbox.

use tokio_util::sync::CancellationToken;

use super::pattern::Irregular;
use super::take::{Removal, SkipReason};
use super::tree::Tree;
use crate::cleanup::options::Partitions;
use crate::cleanup::pass::{Pass, PassError};

/// Event of a pass for partitions, one at a time.
#[derive(Debug)]
pub(crate) enum Event {
    /// Created.
    Made(String),
    /// Not created, and so none after it.
    NotMade(String, String),
    /// None is created.
    Irregular(Irregular),
    /// Removed, with this number of rows, which are in the file if there is one.
    Gone { name: String, rows: u64, file: Option<String> },
    /// Not removed, for this reason.
    Skipped(String, SkipReason),
}

impl Pass<'_> {
    /// Drops or detaches partitions that are over and sent. `is_captured` returns whether a table of this
    /// schema and name is captured by its own name or columns. Coming partitions are in the tree already.
    pub(crate) async fn take_partitions(
        &self,
        tree: &Tree,
        is_captured: impl Fn(&str, &str) -> bool,
        stop: &CancellationToken,
        mut tell: impl FnMut(Event),
    ) -> Result<(), PassError> {
        if self.options.partitions == Partitions::Rows {
            return Ok(());
        }
        for partition in tree.over(self.options.partitions_ahead, 0) {
            let detaches = self.options.partitions == Partitions::Detach;
            let taken = if detaches && is_captured(&partition.schema, &partition.plain_name) {
                Removal::Skipped(SkipReason::Captured)
            } else {
                self.take_partition(tree, partition, stop).await?
            };
            let name = partition.name();
            tell(match taken {
                Removal::Removed { rows, file } => Event::Gone { name, rows, file },
                Removal::Skipped(left) => Event::Skipped(name, left),
            });
        }
        Ok(())
    }
}
