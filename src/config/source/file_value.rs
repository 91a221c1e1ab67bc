//! Values from files.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::placeholder::Resolver;
use crate::credentials::{Reread, Service};
use crate::secret::Secret;

/// A value that comes from a file, and can be read from it again.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::config) enum FileValue {
    /// A text with placeholders of files in it.
    Placeholders { text: Secret, environment: Arc<HashMap<String, String>>, expressions: bool },
    /// A parameter of a service in libpq's service file.
    Service { service: Service, parameter: &'static str },
}

impl FileValue {
    /// Returns the text's source, if a file is among its placeholders.
    pub(super) fn of_placeholders(text: &str, resolver: Resolver<'_>) -> Option<Self> {
        let Resolver { environment, expressions } = resolver;
        resolver.reads_again(text).then(|| Self::Placeholders {
            text: Secret::new(text),
            environment: Arc::new(environment.clone()),
            expressions,
        })
    }
}

impl Reread for FileValue {
    fn reread(&self) -> Result<Secret, Box<dyn std::error::Error + Send + Sync>> {
        match self {
            Self::Placeholders { text, environment, expressions } => {
                let resolver = Resolver { environment, expressions: *expressions };
                Ok(Secret::new(resolver.resolve(text.expose())?.value))
            }
            Self::Service { service, parameter } => {
                let mut parameters = service.parameters()?.into_iter();
                let found = parameters.find(|found| found.name == *parameter);
                let found =
                    found.ok_or_else(|| format!("{} has no {parameter}", service.file().display()))?;
                Ok(found.value)
            }
        }
    }
}

impl fmt::Debug for FileValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Placeholders { .. } => "placeholders of files",
            Self::Service { .. } => "a service file",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placeholder_of_a_file_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let write = |value: &str| std::fs::write(folder.path().join("password"), value).unwrap();
        let environment = HashMap::from([("PREFIX".to_owned(), "a-".to_owned())]);
        let resolver = Resolver { environment: &environment, expressions: false };
        let text = format!("${{env:PREFIX}}${{dir:{}:password}}", folder.path().display());
        let value = FileValue::of_placeholders(&text, resolver).unwrap();
        for password in ["one", "two"] {
            write(password);
            assert_eq!(value.reread().unwrap(), Secret::new(format!("a-{password}")));
        }
        std::fs::remove_file(folder.path().join("password")).unwrap();
        assert!(value.reread().is_err());
        assert!(FileValue::of_placeholders("${env:PREFIX}", resolver).is_none());
        assert!(FileValue::of_placeholders("${file:/x", resolver).is_none());
    }
}
