//! Time from which topics are read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use uuid::{Uuid, Version};

use super::rows::FoundRow;
use super::wanted::Wanted;
use crate::cli::shell::time::parse_time;

/// Longest difference between the clocks of the application, of PostgreSQL and of the brokers.
const MARGIN: Duration = Duration::from_secs(3_600);

/// Returns the time before which no record of one event can have been written, in milliseconds since 1970:
/// from its row's commit, or an id that begins with the time (UUID version 7). A key may have older events
/// whose rows were deleted.
pub(super) fn guess(wanted: &Wanted, rows: &[FoundRow]) -> Option<i64> {
    let is_id = |row: &FoundRow| row.id.as_deref().is_some_and(|id| wanted.texts().contains(&id));
    if !wanted.id || (wanted.key && !rows.iter().any(is_id)) {
        return None;
    }
    let commits: Option<Vec<_>> = rows.iter().map(|row| parse_time(row.committed.as_deref()?).ok()).collect();
    let first = commits.and_then(|commits| commits.into_iter().min()).or_else(|| time_of(&wanted.text))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let margin = i64::try_from(MARGIN.as_millis()).unwrap_or(i64::MAX);
    // Brokers return no offset for a time in the future.
    (i128::from(first) <= i128::try_from(now).unwrap_or(i128::MAX)).then(|| first.saturating_sub(margin))
}

fn time_of(id: &str) -> Option<i64> {
    let id: Uuid = id.parse().ok()?;
    let (seconds, nanos) =
        (id.get_version() == Some(Version::SortRand)).then(|| id.get_timestamp())??.to_unix();
    i64::try_from(seconds.saturating_mul(1_000).saturating_add(u64::from(nanos / 1_000_000))).ok()
}

#[cfg(test)]
mod tests {
    use super::super::wanted::Kind;
    use super::*;

    const V7: &str = "019e2b6c-7f10-7c3e-9d54-2f1f8f2f7d10";
    const V4: &str = "3dd3e317-ff96-4b63-a58c-2d06bc6f07dc";

    fn row(id: &str, committed: Option<&str>) -> FoundRow {
        FoundRow {
            topic: None,
            table: "public.outbox".to_owned(),
            id: Some(id.to_owned()),
            key: Some("42".to_owned()),
            transaction: "730".to_owned(),
            committed: committed.map(str::to_owned),
            keeps_commit_times: committed.is_some(),
            route: None,
        }
    }

    #[test]
    fn one_event_has_a_time_and_a_key_has_none() {
        let guess = |text: &str, kind, rows: &[FoundRow]| guess(&Wanted::parse(text, kind), rows);
        let committed = Some("2026-01-31T12:00:00.000Z");
        let noon = 1_769_860_800_000 - 3_600_000;
        assert_eq!(guess(V4, Kind::Any, &[row(V4, committed)]), Some(noon));
        assert_eq!(guess(V4, Kind::Any, &[row(V4, None)]), None);
        assert_eq!(guess("42", Kind::Any, &[row(V4, committed)]), None);
        assert_eq!(guess("42", Kind::Key, &[row("42", committed)]), None);
        assert_eq!(guess("0/16B3748", Kind::Any, &[]), None);
        let made = 0x019e_2b6c_7f10 - 3_600_000;
        assert_eq!(guess(V7, Kind::Id, &[]), Some(made));
        assert_eq!(guess(V7, Kind::Any, &[row(V7, None)]), Some(made));
        // It may be a key as well.
        assert_eq!(guess(V7, Kind::Any, &[]), None);
    }
}
