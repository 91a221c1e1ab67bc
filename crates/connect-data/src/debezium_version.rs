//! Version of Debezium whose output is reproduced, where versions differ.

use super::OptionReader;

/// Default of [`KEY`].
pub const DEFAULT: &str = "3.7.0.Final";
/// Option for another version.
pub const KEY: &str = "outboxd.debezium.version";
/// First version that reads the elements of arrays of times as text, with their microseconds.
pub const TIMES_IN_ARRAYS: [u32; 3] = [3, 7, 1];

/// Reports whether the configured version is older than `first`.
pub fn is_asked_before(options: &OptionReader<'_>, first: [u32; 3]) -> bool {
    is_before(&options.text(KEY).unwrap_or_else(|| DEFAULT.to_owned()), first)
}

/// Reports whether a version, such as `3.6.1.Final`, is older than another one. A text that is no version counts as the
/// newest.
fn is_before(version: &str, first: [u32; 3]) -> bool {
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    let parts = [numbers.next().flatten(), numbers.next().flatten(), numbers.next().flatten()];
    match parts {
        [Some(major), Some(minor), Some(patch)] => [major, minor, patch] < first,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_number() {
        for older in [DEFAULT, "3.7.0.Final", "3.6.10.Final", "2.7.4.Final", "3.7.0.CR1"] {
            assert!(is_before(older, TIMES_IN_ARRAYS), "{older}");
        }
        for newer in ["3.7.1.Final", "3.7.2.Final", "3.10.0.Final", "4.0.0.Alpha1", "shop-1", "", "3.7"] {
            assert!(!is_before(newer, TIMES_IN_ARRAYS), "{newer}");
        }
    }
}
