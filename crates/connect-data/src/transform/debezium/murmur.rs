//! Debezium's `MurmurHash3`, an early form of the published one.

use crate::Value;
use crate::java::hash_code;

const SEED: u64 = 9001;
const BLOCK: usize = 16;

struct State {
    h: [u64; 2],
    k: [u64; 2],
    c: [u64; 2],
}

/// Returns the hash of a value: of a text's UTF-8, or of the Java hash of any other value; none if that has none.
pub(in crate::transform) fn of(value: &Value<'_>) -> Option<i32> {
    match value {
        Value::Str(text) => Some(of_bytes(text.as_bytes())),
        other => hash_code::of(other).map(|hash| of_bytes(&hash.to_le_bytes())),
    }
}

fn of_bytes(bytes: &[u8]) -> i32 {
    let mut state = State {
        h: [0x9368_e53c_2f6a_f274 ^ SEED, 0x586d_cd20_8f7c_d3fd ^ SEED],
        k: [0, 0],
        c: [0x87c3_7b91_1142_53d5, 0x4cf5_ad43_2745_937f],
    };
    let (blocks, tail) = bytes.as_chunks::<BLOCK>();
    for block in blocks {
        let number = u128::from_le_bytes(*block);
        state.k = [low(number), low(number >> 64)];
        state.mix();
    }
    state.k = halves(tail);
    if !tail.is_empty() {
        state.mix();
    }
    let [mut first, mut second] = state.h;
    second ^= u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    first = first.wrapping_add(second);
    second = second.wrapping_add(first);
    (first, second) = (finished(first), finished(second));
    first = first.wrapping_add(second);
    let [.., a, b, c, d] = first.to_le_bytes();
    i32::from_le_bytes([a, b, c, d])
}

/// Returns the bytes behind the last block as two words. Java's bytes are signed, so the sign fills the bits above each
/// byte.
fn halves(tail: &[u8]) -> [u64; 2] {
    let mut halves = [0, 0];
    for (half, bytes) in halves.iter_mut().zip(tail.chunks(8)) {
        for (byte, shift) in bytes.iter().zip((0..64).step_by(8)) {
            *half ^= i64::from(i8::from_le_bytes([*byte])).cast_unsigned() << shift;
        }
    }
    halves
}

/// Returns the lower 64 bits.
const fn low(number: u128) -> u64 {
    let [a, b, c, d, e, f, g, h, ..] = number.to_le_bytes();
    u64::from_le_bytes([a, b, c, d, e, f, g, h])
}

impl State {
    fn mix(&mut self) {
        let Self { h: [h1, h2], k: [k1, k2], c: [c1, c2] } = self;
        *k1 = k1.wrapping_mul(*c1).rotate_left(23).wrapping_mul(*c2);
        *h1 = (*h1 ^ *k1).wrapping_add(*h2);
        *h2 = h2.rotate_left(41);
        *k2 = k2.wrapping_mul(*c2).rotate_left(23).wrapping_mul(*c1);
        *h2 = (*h2 ^ *k2).wrapping_add(*h1);
        *h1 = h1.wrapping_mul(3).wrapping_add(0x52dc_e729);
        *h2 = h2.wrapping_mul(3).wrapping_add(0x3849_5ab5);
        *c1 = c1.wrapping_mul(5).wrapping_add(0x7b7d_159c);
        *c2 = c2.wrapping_mul(5).wrapping_add(0x6bce_6396);
    }
}

const fn finished(mut number: u64) -> u64 {
    number ^= number >> 33;
    number = number.wrapping_mul(0xff51_afd7_ed55_8ccd);
    number ^= number >> 33;
    number = number.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ (number >> 33)
}
