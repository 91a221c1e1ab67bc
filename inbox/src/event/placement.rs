//! Partition of a key, as Kafka's clients choose it.

#[cfg(any(feature = "position", test))]
use super::Event;

#[cfg(any(feature = "position", test))]
impl Event {
    /// Reports whether the event is in the partition that belongs to its key in a topic with this number of partitions, as the
    /// partitioner of the Java client and of outboxd chooses. Then every other event with the same key that is in place too is in
    /// the same partition.
    pub(crate) fn is_in_place(&self, partitions: i32) -> bool {
        let right = match &self.key {
            Some(key) => hash(key).checked_rem(u32::try_from(partitions).unwrap_or_default()),
            // An event without a key may be in any partition.
            None => (partitions == 1).then_some(0),
        };
        right.is_some_and(|right| u32::try_from(self.partition) == Ok(right))
    }
}

/// Returns the hash by which keys are distributed.
///
/// Source: `BuiltInPartitioner.partitionForKey` of Kafka's clients.
#[cfg(any(feature = "position", test))]
fn hash(key: &[u8]) -> u32 {
    murmur2(key) & 0x7fff_ffff
}

/// Returns Austin Appleby's MurmurHash2 with the seed of Kafka's clients.
pub(crate) fn murmur2(data: &[u8]) -> u32 {
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
    use proptest::prelude::*;

    use super::*;
    use crate::event::event;

    /// Expected values of Kafka's own tests (`UtilsTest.testMurmur2`).
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

    fn places(key: Option<&[u8]>, partitions: i32) -> Vec<i32> {
        let at = |partition: &i32| {
            let event = Event { partition: *partition, key: key.map(<[u8]>::to_vec), ..event::<&str>(&[]) };
            event.is_in_place(partitions)
        };
        (-1..40).filter(at).collect()
    }

    #[test]
    fn without_a_key_only_one_partition_is_a_place() {
        assert_eq!((places(None, 1), places(None, 2)), (vec![0], vec![]));
        assert_eq!((places(Some(b"7"), 0), places(Some(b"7"), -1)), (vec![], vec![]));
    }

    proptest! {
        #[test]
        fn a_key_has_one_place(key in any::<Vec<u8>>(), partitions in 1..40) {
            let places = places(Some(&key), partitions);
            prop_assert!(places.len() == 1 && places[0] >= 0 && places[0] < partitions, "{:?}", places);
        }
    }
}
