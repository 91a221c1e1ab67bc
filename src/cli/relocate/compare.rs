use std::collections::HashSet;

use super::args::TargetArgs;
use super::error::MoveError;
use super::site::{APPLICATION, Site};
use crate::cli::progress::Progress;
use crate::cli::verify::{Presence, SentQuestion};
use crate::connect::event_id::plain_id;
use crate::verification::RowName;

/// More rows than this are not kept in memory.
const ROWS_MAX: usize = 5_000_000;

/// Rows beside records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Comparison {
    /// How many rows were compared.
    pub(super) rows: usize,
    /// How many records were read.
    pub(super) records: u64,
    /// The topics that were read.
    pub(super) topics: Vec<String>,
    /// Ids of rows that are in Kafka.
    pub(super) sent: Vec<String>,
    /// Ids of rows that are not.
    pub(super) unsent: Vec<String>,
    /// How many of these have a record that differs from theirs in its headers only.
    pub(super) other_headers: usize,
    /// Ids of rows that are there more than once.
    pub(super) twice: Vec<String>,
}

/// Compares the rows that `--sent` does not name with the records of their topics. A row is in Kafka when a record has all that
/// its own would have: topic, id, key, value and headers. A dead letter counts: its row was dealt with.
pub(super) async fn compare(
    site: &Site,
    args: &TargetArgs,
    progress: &Progress,
) -> Result<Comparison, MoveError> {
    let known: HashSet<String> = match args.sent.as_deref() {
        Some(condition) => site.ids(condition).await?.into_iter().collect(),
        None => HashSet::new(),
    };
    let mut found = Comparison::default();
    let question = SentQuestion {
        parts: &site.parts,
        sql: &site.sql,
        capture: site.capture().await?,
        application: APPLICATION,
        other_topics: &args.topics,
        since_ms: args.since,
    };
    let looked = question.ask(progress, |row, presence| found.add(row, presence, &known)).await;
    progress.end();
    let looked = looked?;
    if found.rows > ROWS_MAX {
        return Err(MoveError::TooManyRows { table: site.name(), max: ROWS_MAX });
    }
    if looked.is_cut && args.sent.is_none() && args.since.is_none() && !found.unsent.is_empty() {
        return Err(MoveError::Forgotten(found.unsent.len()));
    }
    found.settle();
    Ok(Comparison { records: looked.records, topics: looked.topics, ..found })
}

impl Comparison {
    fn add(&mut self, row: &RowName, presence: Presence, known: &HashSet<String>) {
        let id = row.id.as_deref().and_then(|id| plain_id(id.as_bytes())).unwrap_or_default();
        if known.contains(&id) {
            return;
        }
        self.rows = self.rows.saturating_add(1);
        if self.rows > ROWS_MAX {
            return;
        }
        if presence == Presence::Repeated {
            self.twice.push(id.clone());
        }
        if presence == Presence::OtherHeaders {
            self.other_headers = self.other_headers.saturating_add(1);
        }
        match presence {
            Presence::Unsent | Presence::OtherHeaders => self.unsent.push(id),
            Presence::Sent | Presence::Repeated => self.sent.push(id),
        }
    }

    /// The first start leaves rows out by their ids alone: an id that an unsent row has as well is not one of those.
    fn settle(&mut self) {
        let unsent: HashSet<&String> = self.unsent.iter().collect();
        self.sent.retain(|id| !unsent.contains(id));
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
    fn an_id_that_an_unsent_row_has_too_is_not_left_out() {
        let mut found = Comparison::default();
        let known = HashSet::from(["old".to_owned()]);
        let rows = [
            ("a", Presence::Sent),
            ("b", Presence::Repeated),
            ("c", Presence::Unsent),
            ("a", Presence::OtherHeaders),
            ("\"old\"", Presence::Unsent),
        ];
        for (place, (id, presence)) in (0..).zip(rows) {
            let row = RowName { table: 0, lies_in: 0, place: (0, place), id: Some(id.to_owned()) };
            found.add(&row, presence, &known);
        }
        found.settle();
        let expected = Comparison {
            rows: 4,
            sent: vec!["b".to_owned()],
            unsent: vec!["c".to_owned(), "a".to_owned()],
            other_headers: 1,
            twice: vec!["b".to_owned()],
            ..Comparison::default()
        };
        assert_eq!(found, expected);
        assert!(!found.is_whole() && Comparison::default().is_whole());
    }
}
