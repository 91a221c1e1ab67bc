//! The properties with which clients log in. The files that they come from may change while outboxd runs.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sha2::{Digest as _, Sha256};

use crate::secret::Secret;

/// A property of librdkafka, and its value.
pub(crate) type Property = (String, Secret);

/// Source of the properties of a login.
pub(crate) trait LoginSource: fmt::Debug + Send + Sync {
    /// Reads the properties, from files among others.
    ///
    /// # Errors
    /// When one cannot be read; the error has no secret.
    fn read(&self) -> Result<Vec<Property>, Box<dyn std::error::Error + Send + Sync>>;
}

/// A login whose files may change. Clones share what was read last, so that every new client has it.
#[derive(Debug, Clone)]
pub struct Login(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    source: Arc<dyn LoginSource>,
    last: Mutex<Last>,
}

/// Properties, and a hash of them and of the files that they name.
#[derive(Debug, Default)]
struct Last {
    properties: Vec<Property>,
    hash: Hash,
    changes: u64,
}

type Hash = [u8; 32];

impl Login {
    /// Makes a login that is not read yet.
    pub(crate) fn new(source: Arc<dyn LoginSource>) -> Self {
        Self(Arc::new(Shared { source, last: Mutex::default() }))
    }

    /// Sets what was read at the start.
    pub(super) fn begin(&self, properties: Vec<Property>) {
        *self.last() = Last { hash: hash(&properties), properties, changes: 0 };
    }

    /// Returns the properties that were read last.
    pub(super) fn properties(&self) -> Vec<Property> {
        self.last().properties.clone()
    }

    /// Returns the value of a property.
    pub(super) fn get(&self, name: &str) -> Option<Secret> {
        let last = self.last();
        last.properties.iter().find(|(property, _)| property == name).map(|(_, value)| value.clone())
    }

    /// Reads the files again, and returns whether something has changed. Blocks.
    ///
    /// # Errors
    /// When something cannot be read; the last properties remain.
    pub(crate) fn refresh(&self) -> Result<bool, Box<dyn std::error::Error + Send + Sync>> {
        let properties = self.0.source.read()?;
        let hash = hash(&properties);
        let mut last = self.last();
        let is_changed = hash != last.hash;
        *last = Last { properties, hash, changes: last.changes.saturating_add(is_changed.into()) };
        Ok(is_changed)
    }

    /// Returns the number of changes since the start.
    pub(super) fn changes(&self) -> u64 {
        self.last().changes
    }

    fn last(&self) -> MutexGuard<'_, Last> {
        self.0.last.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns whether a property belongs to the login.
pub(super) fn is_of_login(name: &str) -> bool {
    name.starts_with("sasl.") || name.starts_with("ssl.")
}

fn hash(properties: &[Property]) -> Hash {
    let mut digest = Sha256::new();
    let mut add = |part: &[u8]| digest.update([Sha256::digest(part).as_slice()].concat());
    for (name, value) in properties {
        add(name.as_bytes());
        add(value.expose().as_bytes());
        if name.ends_with(".location") {
            // A folder of authorities, or a file that is being replaced, is like an empty one.
            add(&std::fs::read(value.expose()).unwrap_or_default());
        }
    }
    digest.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The password of a file, and the place of a certificate.
    #[derive(Debug)]
    struct Files(tempfile::TempDir);

    impl LoginSource for Files {
        fn read(&self) -> Result<Vec<Property>, Box<dyn std::error::Error + Send + Sync>> {
            let certificate = self.0.path().join("certificate").display().to_string();
            let password = std::fs::read_to_string(self.0.path().join("password"))?;
            Ok(vec![
                ("sasl.password".to_owned(), Secret::new(password)),
                ("ssl.certificate.location".to_owned(), Secret::new(certificate)),
            ])
        }
    }

    #[test]
    fn a_change_of_a_value_or_of_a_file_is_noticed_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let write = |name: &str, text: &str| std::fs::write(path.join(name), text).unwrap();
        write("password", "one");
        write("certificate", "first");
        let files = Arc::new(Files(folder));
        let login = Login::new(Arc::clone(&files) as Arc<dyn LoginSource>);
        login.begin(files.read().unwrap());
        assert!(!login.refresh().unwrap());
        write("certificate", "second");
        assert!(login.refresh().unwrap());
        write("password", "two");
        assert!(login.refresh().unwrap());
        assert!(!login.refresh().unwrap());
        assert_eq!(login.clone().get("sasl.password"), Some(Secret::new("two")));
        std::fs::remove_file(path.join("password")).unwrap();
        assert!(login.refresh().is_err());
        assert_eq!(login.properties().len(), 2);
    }
}
