//! Comparison of rows with records before a cut-over.

use std::collections::HashSet;

use super::args::TargetArgs;
use super::error::MoveError;
use super::site::{APPLICATION, Site};
use crate::cli::prove::verify::{Presence, SentQuestion};
use crate::cli::shell::progress::Progress;
use crate::connect::event_id::plain_id;
use crate::verification::RowName;

/// Maximum number of rows in memory.
const ROWS_MAX: usize = 5_000_000;

/// Rows beside records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Comparison {
    /// Number of rows that were compared.
    pub(super) rows: usize,
    /// Number of records that were read.
    pub(super) records: u64,
    /// The topics that were read.
    pub(super) topics: Vec<String>,
    /// Ids of rows that are in Kafka.
    pub(super) sent: Vec<String>,
    /// Ids of rows that are not.
    pub(super) unsent: Vec<String>,
    /// Number of these with a record that differs from theirs in its headers only.
    pub(super) other_headers: usize,
    /// Ids of rows that exist more than once.
    pub(super) twice: Vec<String>,
    /// Rows without an id, which are in none of the lists.
    pub(super) without_id: WithoutId,
}

/// Number of rows without an id. They cannot be listed by id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct WithoutId {
    pub(super) sent: usize,
    pub(super) unsent: usize,
    pub(super) twice: usize,
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
    if looked.is_cut && args.sent.is_none() && args.since.is_none() && !found.unsent_count() > 0 {
        return Err(MoveError::Forgotten(found.unsent_count()));
    }
    found.settle();
    Ok(Comparison { records: looked.records, topics: looked.topics, ..found })
}

impl Comparison {
    fn add(&mut self, row: &RowName, presence: Presence, known: &HashSet<String>) {
        let id = row.id.as_deref().and_then(|id| plain_id(id.as_bytes()));
        if id.as_ref().is_some_and(|id| known.contains(id)) {
            return;
        }
        self.rows = self.rows.saturating_add(1);
        if self.rows > ROWS_MAX {
            return;
        }
        if presence == Presence::OtherHeaders {
            self.other_headers = self.other_headers.saturating_add(1);
        }
        let is_sent = matches!(presence, Presence::Sent | Presence::Repeated);
        let Some(id) = id else { return self.without_id.add(is_sent, presence == Presence::Repeated) };
        if presence == Presence::Repeated {
            self.twice.push(id.clone());
        }
        if is_sent { self.sent.push(id) } else { self.unsent.push(id) }
    }

    pub(super) const fn sent_count(&self) -> usize {
        self.sent.len().saturating_add(self.without_id.sent)
    }

    pub(super) const fn unsent_count(&self) -> usize {
        self.unsent.len().saturating_add(self.without_id.unsent)
    }

    pub(super) const fn twice_count(&self) -> usize {
        self.twice.len().saturating_add(self.without_id.twice)
    }

    /// Removes ids of sent rows that an unsent row has as well: the first start skips rows by their ids
    /// alone.
    fn settle(&mut self) {
        let unsent: HashSet<&String> = self.unsent.iter().collect();
        self.sent.retain(|id| !unsent.contains(id));
    }

    /// Returns whether each row arrived once.
    pub(super) const fn is_whole(&self) -> bool {
        self.unsent_count() == 0 && self.twice_count() == 0
    }
}

impl WithoutId {
    const fn add(&mut self, is_sent: bool, is_repeated: bool) {
        if is_sent {
            self.sent = self.sent.saturating_add(1);
        } else {
            self.unsent = self.unsent.saturating_add(1);
        }
        if is_repeated {
            self.twice = self.twice.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_that_an_unsent_row_has_too_is_not_excluded() {
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

    /// Under one empty id, a row that is sent would stand for all that are not.
    #[test]
    fn rows_without_an_id_are_counted_beside_the_ids() {
        let mut found = Comparison::default();
        for (place, presence) in
            (0..).zip([Presence::Sent, Presence::Unsent, Presence::Unsent, Presence::Repeated])
        {
            found.add(
                &RowName { table: 0, lies_in: 0, place: (0, place), id: None },
                presence,
                &HashSet::new(),
            );
        }
        found.settle();
        let without_id = WithoutId { sent: 2, unsent: 2, twice: 1 };
        assert_eq!(found, Comparison { rows: 4, without_id, ..Comparison::default() });
        assert_eq!([found.sent_count(), found.unsent_count(), found.twice_count()], [2, 2, 1]);
        assert!(!found.is_whole());
    }
}
