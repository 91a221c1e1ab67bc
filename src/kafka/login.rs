//! The properties with which clients log in. The files that they come from may change while outboxd runs.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::{fmt, io};

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

/// Reason why a login cannot be read or used.
pub(super) type ReadError = Box<dyn std::error::Error + Send + Sync>;

impl Login {
    /// Makes a login that is not read yet.
    pub(crate) fn new(source: Arc<dyn LoginSource>) -> Self {
        Self(Arc::new(Shared { source, last: Mutex::default() }))
    }

    /// Sets what was read at the start.
    pub(super) fn begin(&self, properties: Vec<Property>) {
        // A file that cannot be read is a change once it can.
        *self.last() = Last { hash: hash(&properties).unwrap_or_default(), properties, changes: 0 };
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

    /// Reads the files again, and returns whether something has changed. `test` decides whether a client can have the properties. Blocks.
    ///
    /// # Errors
    /// When something cannot be read or used; the last properties remain.
    pub(super) fn refresh<E: Into<ReadError>>(
        &self,
        test: impl FnOnce(&[Property]) -> Result<(), E>,
    ) -> Result<bool, ReadError> {
        let properties = self.0.source.read()?;
        let hash = hash(&properties)?;
        if hash == self.last().hash {
            return Ok(false);
        }
        test(&properties).map_err(Into::into)?;
        let mut last = self.last();
        *last = Last { properties, hash, changes: last.changes.saturating_add(1) };
        Ok(true)
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

fn hash(properties: &[Property]) -> io::Result<Hash> {
    let mut digest = Sha256::new();
    let mut add = |part: &[u8]| digest.update([Sha256::digest(part).as_slice()].concat());
    for (name, value) in properties {
        add(name.as_bytes());
        add(value.expose().as_bytes());
        // A folder of authorities is read by librdkafka alone.
        if name.ends_with(".location") && !Path::new(value.expose()).is_dir() {
            add(&std::fs::read(value.expose())?);
        }
    }
    Ok(digest.finalize().into())
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
        let remove = |name: &str| std::fs::remove_file(path.join(name)).unwrap();
        write("password", "one");
        write("certificate", "first");
        let files = Arc::new(Files(folder));
        let login = Login::new(Arc::clone(&files) as Arc<dyn LoginSource>);
        login.begin(files.read().unwrap());
        let password = || login.get("sasl.password").unwrap().expose().to_owned();
        let refresh = || login.clone().refresh(|_| Ok::<_, String>(())).ok();
        assert_eq!(refresh(), Some(false));
        write("certificate", "second");
        assert_eq!((refresh(), login.changes()), (Some(true), 1));
        write("password", "two");
        assert!(login.refresh(|_| Err("of another key")).is_err());
        assert_eq!((password().as_str(), login.changes()), ("one", 1));
        assert_eq!((refresh(), login.changes()), (Some(true), 2));
        assert_eq!((refresh(), password().as_str()), (Some(false), "two"));
        for name in ["certificate", "password"] {
            remove(name);
            assert_eq!((refresh(), password().as_str(), login.changes()), (None, "two", 2), "{name}");
        }
    }
}
