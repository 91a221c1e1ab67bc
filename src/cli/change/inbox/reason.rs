//! Reasons for which events wait.

use serde::Serialize;

/// Reason for which a parked event waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reason {
    /// Dead letter, whose key waits until it is released.
    DeadLetter,
    /// A number before its own is missing.
    MissingNumber,
    /// An earlier event of its key waits.
    Behind,
    /// A process has ended in the middle of it too often.
    Crash,
    /// An attempt failed.
    Retry,
    /// Nothing: a consumer may handle it.
    Due,
}

impl Reason {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::DeadLetter => "dead letter",
            Self::MissingNumber => "missing number",
            Self::Behind => "behind",
            Self::Crash => "crash",
            Self::Retry => "retry",
            Self::Due => "due",
        }
    }
}

/// Columns of a parked event that decide what it waits for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WaitState {
    pub(super) is_dead: bool,
    pub(super) number: Option<i64>,
    /// The next number of its key.
    pub(super) next: Option<i64>,
    /// An earlier event of its key is parked.
    pub(super) is_behind: bool,
    pub(super) is_due: bool,
    pub(super) begun: i32,
}

impl WaitState {
    pub(super) fn reason(self) -> Reason {
        let is_missing = self.number.is_some_and(|number| self.next.is_none_or(|next| number > next));
        match self {
            Self { is_dead: true, .. } => Reason::DeadLetter,
            _ if is_missing => Reason::MissingNumber,
            Self { is_behind: true, .. } => Reason::Behind,
            Self { is_due: true, .. } => Reason::Due,
            Self { begun: 1.., .. } => Reason::Crash,
            _ => Reason::Retry,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_waits_for_one_reason() {
        let none = WaitState::default();
        for (state, reason) in [
            (none, Reason::Retry),
            (WaitState { is_due: true, ..none }, Reason::Due),
            (WaitState { begun: 3, ..none }, Reason::Crash),
            (WaitState { is_behind: true, is_due: true, ..none }, Reason::Behind),
            (WaitState { number: Some(5), next: Some(4), is_behind: true, ..none }, Reason::MissingNumber),
            (WaitState { number: Some(5), ..none }, Reason::MissingNumber),
            (WaitState { number: Some(5), next: Some(5), is_due: true, ..none }, Reason::Due),
            (WaitState { is_dead: true, is_behind: true, ..none }, Reason::DeadLetter),
        ] {
            assert_eq!(state.reason(), reason, "{state:?}");
        }
    }
}
