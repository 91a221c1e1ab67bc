//! Offset of a consumer group, with what the inbox writes beside it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use rdkafka::Offset;
use rdkafka::topic_partition_list::{TopicPartitionList, TopicPartitionListElem};

use crate::core::PartitionId;

const PREFIX: &str = "outboxd-inbox began at ";
const OF: &str = " as ";

/// Offset of a consumer group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupOffset {
    pub(crate) offset: i64,
    pub(crate) began: Option<Began>,
}

/// Offset at which a consumer began to read a partition. It is committed as the metadata of each offset.
///
/// A database that has been put back to a state before that does not know the partition. The effects of all events from this offset on
/// are lost then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Began {
    pub(crate) offset: i64,
    /// Name of the consumer in the tables. The effects of another name are other ones.
    pub(crate) consumer: Arc<str>,
}

impl GroupOffset {
    /// Adds the offset to a list to commit.
    pub(super) fn add_to(&self, list: &mut TopicPartitionList, id: &PartitionId) {
        // Negative offsets are refused, which no record has.
        list.add_partition_offset(&id.topic, id.partition, Offset::Offset(self.offset)).ok();
        if let Some(began) = &self.began
            && let Some(mut element) = list.find_partition(&id.topic, id.partition)
        {
            element.set_metadata(began.metadata());
        }
    }

    /// Reads a committed offset; `None` if the group has none.
    pub(super) fn of(element: &TopicPartitionListElem<'_>) -> Option<Self> {
        let Offset::Offset(offset) = element.offset() else { return None };
        // The metadata of another client may be any bytes, and rdkafka panics if they are not UTF-8.
        let metadata = catch_unwind(AssertUnwindSafe(|| element.metadata().to_owned()));
        Some(Self { offset, began: metadata.ok().as_deref().and_then(Began::read) })
    }
}

impl Began {
    fn metadata(&self) -> String {
        format!("{PREFIX}{}{OF}{}", self.offset, self.consumer)
    }

    fn read(metadata: &str) -> Option<Self> {
        let (offset, consumer) = metadata.strip_prefix(PREFIX)?.split_once(OF)?;
        Some(Self { offset: offset.parse().ok()?, consumer: Arc::from(consumer) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_committed_is_read(offset in 0..i64::MAX, end in 0..i64::MAX, consumer in "\\PC{0,20}") {
            let id = PartitionId { topic: Arc::from("topic"), partition: 3 };
            let began = Began { offset, consumer: Arc::from(consumer) };
            for began in [Some(began), None] {
                let committed = GroupOffset { offset: end, began };
                let mut list = TopicPartitionList::new();
                committed.add_to(&mut list, &id);
                prop_assert_eq!(list.elements().first().and_then(GroupOffset::of), Some(committed));
            }
        }

        #[test]
        fn any_metadata_is_read_or_ignored(metadata in "(outboxd-inbox began at )?\\PC{0,20}") {
            let mut list = TopicPartitionList::new();
            list.add_partition_offset("topic", 0, Offset::Offset(7)).unwrap();
            list.find_partition("topic", 0).unwrap().set_metadata(metadata);
            prop_assert_eq!(list.elements().first().and_then(GroupOffset::of).map(|read| read.offset), Some(7));
        }
    }
}
