//! Facts that a report lacks.

use serde::Serialize;

use super::story::Story;

/// Information that the report lacks, and the setting with which it would have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct MissingFact {
    pub(super) what: &'static str,
    /// The setting as it is written.
    pub(super) needs: &'static str,
    /// Place of the setting, and its scope.
    pub(super) of: &'static str,
}

const COMMIT: MissingFact = MissingFact {
    what: "the commit's place in the WAL",
    needs: "outboxd.identity.headers=true",
    of: "for records that are sent from then on",
};
const ACKNOWLEDGED: MissingFact = MissingFact {
    what: "when Kafka acknowledged it",
    needs: "message.timestamp.type=LogAppendTime",
    of: "of the topic, for records that come from then on",
};
const COMMITTED: MissingFact = MissingFact {
    what: "when the row was committed",
    needs: "track_commit_timestamp=on",
    of: "of PostgreSQL, which must restart, for rows from then on",
};

/// Returns what is missing for what was found.
pub(super) fn missing_facts(story: &Story) -> Vec<MissingFact> {
    let (sent, rows) = (&story.records.sent, &story.rows);
    let cases = [
        (COMMIT, sent.iter().any(|record| record.position.is_none()) || story.records.without_position > 0),
        (ACKNOWLEDGED, sent.iter().any(|record| !record.is_time_of_arrival)),
        (COMMITTED, rows.iter().any(|row| !row.keeps_commit_times)),
    ];
    cases.into_iter().filter_map(|(case, is_so)| is_so.then_some(case)).collect()
}
