use sha2::{Digest as _, Sha256};

/// Tells whether a request is the same as the one that came first with its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The SHA-256 of these parts. `["a", "bc"]` is not `["ab", "c"]`.
    #[must_use]
    pub fn of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// For what has nothing to compare: the key alone says what is meant.
    #[must_use]
    pub fn none() -> Self {
        Self::of([])
    }

    /// Its 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// From its 32 bytes, as they were stored.
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
