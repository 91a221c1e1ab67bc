//! Comment of `outboxd migrate` on a publication: the progress of the table's handover from the poller.

use serde::{Deserialize, Serialize};

/// Prefix of the comment on the publication.
const PREFIX: &str = "outboxd migrate: ";

/// Progress of a table's handover.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandoverPhase {
    /// The poller still has rows of its own to send: outboxd must not begin.
    Draining,
    /// The poller has sent its last row; later rows are outboxd's.
    Drained,
    /// The publication has all rows again, the trigger is still there.
    Finishing,
    /// New rows are the poller's again.
    Returned,
}

/// The comment on the publication.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handover {
    /// Phase.
    pub phase: HandoverPhase,
    /// The column in which the poller marks sent rows.
    pub mark: String,
    /// Value of a column of texts or numbers that marks a row as sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<String>,
    /// The values of rows that the poller will still send; when empty, all others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unsent: Vec<String>,
}

impl Handover {
    /// Reads a comment; `None` when it is not one of ours.
    #[must_use]
    pub fn parse(comment: &str) -> Option<Self> {
        serde_json::from_str(comment.strip_prefix(PREFIX)?).ok()
    }

    /// Returns the comment.
    #[must_use]
    pub fn text(&self) -> String {
        format!("{PREFIX}{}", serde_json::to_string(self).unwrap_or_default())
    }

    /// Returns the handover at another phase.
    #[must_use]
    pub fn at(&self, phase: HandoverPhase) -> Self {
        Self { phase, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_comment_is_read_as_it_was_written() {
        let handover = Handover {
            phase: HandoverPhase::Draining,
            mark: "status".to_owned(),
            sent: Some("PUBLISHED".to_owned()),
            unsent: vec!["PENDING".to_owned()],
        };
        assert_eq!(Handover::parse(&handover.text()), Some(handover.clone()));
        let drained = handover.at(HandoverPhase::Drained);
        assert_eq!(Handover::parse(&drained.text()), Some(drained));
        let short = "outboxd migrate: {\"phase\":\"returned\",\"mark\":\"sent\"}";
        assert_eq!(Handover::parse(short).map(|it| it.text()).as_deref(), Some(short));
    }

    proptest! {
        #[test]
        fn any_comment_is_read_or_is_not_ours(text: String) {
            drop(Handover::parse(&text));
            drop(Handover::parse(&format!("{PREFIX}{text}")));
        }
    }
}
