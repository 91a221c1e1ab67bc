//! Limit of concurrent transactions that conflict.

/// Minimum of the limit. More than one, so that a slow handler does not block the other ones.
const FEWEST: usize = 2;
/// Number of successes per allowed transaction after which the limit grows by one.
const CALM: usize = 20;

/// Limit of concurrent transactions while they conflict with each other: a deadlock costs each of them a second.
#[derive(Debug)]
pub(super) struct Crowd {
    most: usize,
    limit: usize,
    successes: usize,
}

impl Crowd {
    pub(super) fn new(most: usize) -> Self {
        Self { most, limit: most, successes: 0 }
    }

    /// Reports whether another transaction may begin beside this number of open ones.
    pub(super) fn may_begin(&self, open: usize) -> bool {
        self.limit >= self.most || open < self.limit
    }

    pub(super) fn succeeded(&mut self) {
        if self.limit >= self.most {
            return;
        }
        self.successes += 1;
        if self.successes >= CALM * self.limit {
            (self.limit, self.successes) = (self.limit + 1, 0);
        }
    }

    /// Halves the limit.
    pub(super) fn conflicted(&mut self) {
        (self.limit, self.successes) = ((self.limit / 2).max(FEWEST).min(self.most), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conflicts_lower_the_limit_and_successes_raise_it_again() {
        let mut crowd = Crowd::new(8);
        assert!(crowd.may_begin(8));
        (0..9).for_each(|_| crowd.conflicted());
        assert!(crowd.may_begin(1) && !crowd.may_begin(2));
        (0..8 * CALM * 8).for_each(|_| crowd.succeeded());
        assert!(crowd.may_begin(8));
    }
}
