//! The partition of a key, as Kafka's Java client computes it.

/// Returns the partition of a key, as the Java client chooses it; none of a topic without partitions. Source:
/// `BuiltInPartitioner.partitionForKey` of Kafka's clients.
#[must_use]
pub fn partition_of(key: &[u8], partitions: usize) -> Option<i32> {
    let partitions = u32::try_from(partitions).ok()?;
    i32::try_from(positive_hash(key).checked_rem(partitions)?).ok()
}

/// Returns a number whose remainder, divided by the number of partitions, is the partition of a key.
#[must_use]
pub(crate) fn positive_hash(key: &[u8]) -> u32 {
    murmur2(key) & 0x7fff_ffff
}

/// Computes Austin Appleby's MurmurHash2 with the seed of Kafka's clients.
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const M: u32 = 0x5bd1_e995;
    let (words, tail) = data.as_chunks::<4>();
    // Java's `length` is an int, and keys are never longer.
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let mut hash = words.iter().fold(SEED ^ length, |hash, word| {
        let word = u32::from_le_bytes(*word).wrapping_mul(M);
        let word = (word ^ (word >> 24)).wrapping_mul(M);
        hash.wrapping_mul(M) ^ word
    });
    if !tail.is_empty() {
        let rest = tail.iter().rev().fold(0, |rest, byte| (rest << 8) | u32::from(*byte));
        hash = (hash ^ rest).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Kafka's own tests expect (`UtilsTest.testMurmur2`).
    #[test]
    fn the_hash_is_that_of_the_java_client() {
        let cases: [(&str, i32); 6] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ];
        for (key, expected) in cases {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), expected, "{key}");
        }
    }

    #[test]
    fn a_partition_is_one_of_the_topic() {
        for length in 0..50u8 {
            let key: Vec<u8> = (0..length).map(|n| n.wrapping_mul(37)).collect();
            for partitions in 1..20 {
                let partition = partition_of(&key, partitions);
                assert!(partition.is_some_and(|number| (0..20).contains(&number)), "{partition:?}");
            }
            assert_eq!(partition_of(&key, 1), Some(0));
            assert_eq!(partition_of(&key, 0), None);
        }
    }
}
