//! Hashes of requests.

use sha2::{Digest as _, Sha256};

/// Hash of a request, to detect that a key is used again for a different request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Returns the SHA-256 hash of these parts. `["a", "bc"]` and `["ab", "c"]` differ.
    #[must_use]
    pub fn of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// Returns the fingerprint of a request without content to compare: the key alone identifies it.
    #[must_use]
    pub fn none() -> Self {
        Self::of([])
    }

    /// Returns the 32 bytes of the hash.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Creates a fingerprint from its stored bytes; `None` unless these are 32.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_do_not_run_into_each_other() {
        let of = |parts: &[&str]| Fingerprint::of(parts.iter().map(|part| part.as_bytes()));
        let all = [of(&["a", "bc"]), of(&["ab", "c"]), of(&["abc"]), of(&["abc", ""]), Fingerprint::none()];
        for (index, one) in all.iter().enumerate() {
            assert!(!all[index + 1..].contains(one), "{index}");
            assert_eq!(Fingerprint::from_bytes(one.as_bytes()), Some(*one));
        }
        assert_eq!(Fingerprint::from_bytes(b"short"), None);
    }
}
