use std::collections::HashMap;

use super::records::Sent;

/// Rows beside records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Comparison {
    /// How many rows were compared.
    pub(super) rows: usize,
    /// How many records were read.
    pub(super) records: u64,
    /// Ids of rows that are in Kafka.
    pub(super) sent: Vec<String>,
    /// Ids of rows that are not.
    pub(super) unsent: Vec<String>,
    /// Ids of rows that are there more than once.
    pub(super) twice: Vec<String>,
    /// Every id that Kafka has.
    pub(super) in_kafka: HashMap<String, u32>,
}

impl Comparison {
    pub(super) fn new(ids: Vec<String>, Sent { ids: in_kafka, records, .. }: Sent) -> Self {
        let rows = ids.len();
        let twice =
            ids.iter().filter(|id| in_kafka.get(*id).is_some_and(|count| *count > 1)).cloned().collect();
        let (sent, unsent) = ids.into_iter().partition(|id| in_kafka.contains_key(id));
        Self { rows, records, sent, unsent, twice, in_kafka }
    }

    /// Whether each row came once.
    pub(super) const fn is_whole(&self) -> bool {
        self.unsent.is_empty() && self.twice.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_sent_when_a_record_has_its_id() {
        let ids = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let in_kafka = [("a", 1), ("b", 2), ("z", 5)].map(|(id, count)| (id.to_owned(), count));
        let sent = Sent { ids: HashMap::from(in_kafka), records: 8, is_cut: false };
        let found = Comparison::new(ids("a b c"), sent.clone());
        assert_eq!(
            (found.rows, &found.sent, &found.unsent, &found.twice),
            (3, &ids("a b"), &ids("c"), &ids("b"))
        );
        assert!(!found.is_whole() && Comparison::new(ids("a z"), sent.clone()).twice == ids("z"));
        assert!(Comparison::new(ids("a"), sent).is_whole());
    }
}
