//! Iteration order of `java.util.HashMap`: by buckets of the keys' hashes.

/// Entries of a full bucket. One more entry doubles the buckets, or makes the bucket a tree.
const FULL_BUCKET: usize = 8;

/// Number of buckets from which a full bucket becomes a tree instead of a reason to double.
const TREES_FROM: usize = 64;

/// Construction of a map, which determines its initial number of buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// `new HashMap<>()`
    Empty,
    /// `new HashMap<>(capacity)`, with the number of the entries.
    Sized,
    /// `new HashMap<>(map)`
    Copied,
    /// `new HashMap<>(map)` of a map with this number of entries; the remaining ones were added later.
    CopiedThen(usize),
    /// `new HashSet<>(collection)`, whose elements are the keys.
    Set,
}

/// Sorts entries, in their order of insertion, into the iteration order of a map. Keys must differ.
pub fn in_order<T>(mut entries: Vec<T>, made: Made, key: impl Fn(&T) -> &str) -> Vec<T> {
    let mask = u32::try_from(buckets(entries.len(), made).saturating_sub(1)).unwrap_or(u32::MAX);
    // The sort is stable: keys of one bucket stay in their order of insertion.
    entries.sort_by_key(|entry| spread_hash(key(entry)) & mask);
    entries
}

/// Sorts entries like [`in_order`], for keys that are numbers of 16 bits. Nine of them in one bucket of 64 or more make
/// a tree in Java, which iterates in another order; this case is not reproduced.
pub fn in_order_of_numbers<T>(mut entries: Vec<T>, made: Made, key: impl Fn(&T) -> u16) -> Vec<T> {
    let mut buckets = first_buckets(entries.len(), made);
    let bucket = |entry: &T, buckets: usize| usize::from(key(entry)) & buckets.saturating_sub(1);
    for (count, entry) in entries.iter().enumerate() {
        if buckets < TREES_FROM {
            let same = |other: &&T| bucket(other, buckets) == bucket(entry, buckets);
            if entries.iter().take(count).filter(same).count() >= FULL_BUCKET {
                buckets = buckets.saturating_mul(2);
            }
        }
        if count.saturating_add(1) > buckets.saturating_mul(3) / 4 {
            buckets = buckets.saturating_mul(2);
        }
    }
    entries.sort_by_key(|entry| bucket(entry, buckets));
    entries
}

/// Returns the number of buckets for all entries: it doubles while the entries exceed three quarters of it.
fn buckets(entry_count: usize, made: Made) -> usize {
    let mut buckets = first_buckets(entry_count, made);
    while entry_count > buckets.saturating_mul(3) / 4 {
        buckets = buckets.saturating_mul(2);
    }
    buckets
}

/// Returns the number of buckets with which a map begins.
fn first_buckets(entry_count: usize, made: Made) -> usize {
    match made {
        Made::Empty => 16,
        Made::Sized => entry_count.max(1).next_power_of_two(),
        Made::Copied => copied(entry_count),
        Made::CopiedThen(first) => copied(first),
        Made::Set => copied(entry_count).max(16),
    }
}

fn copied(entry_count: usize) -> usize {
    entry_count.saturating_mul(4).div_euclid(3).saturating_add(1).next_power_of_two()
}

/// Returns `String.hashCode`, spread as by `HashMap`.
fn spread_hash(text: &str) -> u32 {
    let hash =
        text.encode_utf16().fold(0_u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
    hash ^ hash >> 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_as_java_gives_them() {
        let ordered = |count: usize, made| -> Vec<usize> {
            let names: Vec<_> = (0..count).map(|n| (format!("public.t{n}"), n)).collect();
            in_order(names, made, |(name, _)| name).into_iter().map(|(_, n)| n).collect()
        };
        // What a java.util.HashMap of these keys gives in Java 17.
        let forty = [
            25, 26, 23, 24, 29, 27, 28, 8, 7, 9, 4, 3, 6, 5, 0, 21, 22, 2, 1, 20, 14, 36, 15, 37, 12, 34, 13,
            35, 18, 19, 16, 38, 17, 39, 10, 32, 11, 33, 30, 31,
        ];
        assert_eq!(ordered(40, Made::Empty), forty);
        assert_eq!(ordered(1, Made::Sized), [0]);
        assert_eq!(ordered(0, Made::Copied), [0; 0]);
    }

    #[test]
    fn the_number_of_buckets_is_javas() {
        for (count, made, expected) in [
            (0, Made::Empty, 16),
            (12, Made::Empty, 16),
            (13, Made::Empty, 32),
            (1, Made::Sized, 2),
            (2, Made::Sized, 4),
            (3, Made::Sized, 4),
            (1, Made::Copied, 2),
            (2, Made::Copied, 4),
            (3, Made::Copied, 8),
            (4, Made::Copied, 8),
        ] {
            assert_eq!(buckets(count, made), expected, "{count} {made:?}");
        }
    }
}
