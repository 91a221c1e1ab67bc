//! Polls of the catalog that are overdue.

use std::time::{Duration, Instant};

/// A look takes milliseconds, and comes each few seconds. After this long without one it is worth a warning.
pub(crate) const UNSEEN_MAX: Duration = Duration::from_secs(30);

/// Object of PostgreSQL's catalog that is polled, because the stream does not contain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CatalogLook {
    /// The replication slot: how much WAL it holds back, and whether it is about to be lost.
    Slot,
    /// Publication and tables: whether all rows come to the stream.
    Publication,
    /// Captured tables that have come since the start.
    NewTables,
}

/// Time of the last successful poll of each.
#[derive(Debug, Clone, Default)]
pub struct Unseen([Option<Seen>; 3]);

#[derive(Debug, Clone)]
struct Seen {
    last: Instant,
    /// Reason why it was not seen since; the log has it.
    why: Option<String>,
}

impl CatalogLook {
    const ALL: [Self; 3] = [Self::Slot, Self::Publication, Self::NewTables];

    const fn name(self) -> &'static str {
        match self {
            Self::Slot => "the slot's state",
            Self::Publication => "the publication and its tables",
            Self::NewTables => "the tables that have come",
        }
    }

    const fn consequence(self) -> &'static str {
        match self {
            Self::Slot => "nothing warns when the slot retains too much WAL",
            Self::Publication => "nothing warns when a change of them excludes rows from the stream",
            Self::NewTables => "nothing warns when their rows are not sent",
        }
    }

    const fn index(self) -> usize {
        self as usize
    }
}

impl Unseen {
    /// Records a successful poll, or the first one. Logs the end of a reported failure.
    pub(super) fn seen(&mut self, look: CatalogLook, now: Instant) {
        let Some(place) = self.0.get_mut(look.index()) else { return };
        let before = place.replace(Seen { last: now, why: None });
        if before.is_some_and(|seen| seen.why.is_some()) {
            tracing::info!("{} can be read again", look.name());
        }
    }

    /// Records another failed poll. Logs the first failure after a long time without success.
    pub(super) fn not_seen(&mut self, look: CatalogLook, why: &str, now: Instant) {
        let Some(seen) = self.0.get_mut(look.index()).and_then(Option::as_mut) else { return };
        let is_late = now.saturating_duration_since(seen.last) >= UNSEEN_MAX;
        if is_late && seen.why.is_none() {
            seen.why = Some(why.to_owned());
            tracing::warn!(because = why, "{}", warning(look, now.saturating_duration_since(seen.last)));
        }
    }

    /// Returns the problems, each in one line, with their fixes.
    pub(crate) fn warnings(&self, now: Instant) -> Vec<(String, String)> {
        let told = |look: CatalogLook| {
            let seen = self.0.get(look.index())?.as_ref()?;
            let why = seen.why.as_ref()?;
            let age = now.saturating_duration_since(seen.last);
            Some((warning(look, age), format!("see what PostgreSQL has against it: {why}")))
        };
        CatalogLook::ALL.into_iter().filter_map(told).collect()
    }
}

fn warning(look: CatalogLook, age: Duration) -> String {
    format!("{} could not be looked at for {} s: {}", look.name(), age.as_secs(), look.consequence())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_seen_for_long_is_reported_until_it_is_seen() {
        use CatalogLook::{NewTables, Publication, Slot};
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut unseen = Unseen::default();
        unseen.not_seen(Slot, "it is not watched", after(100));
        assert_eq!(unseen.warnings(after(100)), []);
        CatalogLook::ALL.into_iter().for_each(|look| unseen.seen(look, start));
        unseen.not_seen(Publication, "a lock", after(29));
        unseen.seen(NewTables, after(29));
        assert_eq!(unseen.warnings(after(29)), []);
        unseen.not_seen(Publication, "a lock", after(31));
        unseen.not_seen(NewTables, "a lock", after(31));
        let [(what, fix)] = unseen.warnings(after(40)).try_into().unwrap();
        assert!(what.starts_with("the publication and its tables could not be looked at for 40 s"), "{what}");
        assert!(fix.ends_with(": a lock"), "{fix}");
        unseen.seen(Publication, after(41));
        assert_eq!(unseen.warnings(after(41)), []);
    }
}
