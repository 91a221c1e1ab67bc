//! A value that is never shown, and that is wiped from memory when it is dropped.

use std::fmt;

use zeroize::Zeroizing;

/// A password or key. `Debug` masks it and there is no `Display`; [`Secret::expose`] is the one way to read it. Each copy is wiped when
/// it is dropped; what the caller of `expose` copies is not.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// Wraps a secret. An owned text is not copied.
    #[must_use]
    pub fn new(value: impl Into<String>) -> Self {
        Self(Zeroizing::new(value.into()))
    }

    /// Returns the secret itself, for handing it to a server.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("********")
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use std::fs::File;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    /// Reads this process' memory from outside, as a core dump shows it.
    fn memory(address: usize, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let own = File::open("/proc/self/mem").unwrap();
        own.read_exact_at(&mut bytes, address.try_into().unwrap()).unwrap();
        bytes
    }

    #[test]
    fn a_secret_is_wiped_when_it_is_dropped() {
        // The allocator may write into the first bytes of freed memory, and another thread may use all of it: neither leaves the canary.
        let canary = "canary-of-a-dropped-secret".repeat(3);
        let secret = Secret::new(canary.clone());
        let (address, length) = (secret.expose().as_ptr().addr(), canary.len());
        assert_eq!(memory(address, length), canary.as_bytes());
        drop(secret);
        let (left, tail) = (memory(address, length), canary.as_bytes().get(32..).unwrap());
        assert_ne!(left.get(32..), Some(tail));
    }
}
