//! libpq's service file: sections of connection parameters.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use crate::secret::Secret;

/// A section of a service file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Service {
    file: PathBuf,
    name: String,
}

/// The reason why a service cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServiceError {
    /// The file cannot be read.
    #[error("{} cannot be read", file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file has no such section.
    #[error("{} has no service {name:?}", file.display())]
    Missing {
        /// The file.
        file: PathBuf,
        /// The service.
        name: String,
    },
    /// A line is no parameter.
    #[error("{}:{line} is not name=value", file.display())]
    Line {
        /// The file.
        file: PathBuf,
        /// The line, counted from 1.
        line: usize,
    },
    /// None of the places where libpq looks can be named.
    #[error("no service file: neither PGSERVICEFILE nor HOME is set")]
    NoFile,
}

/// A connection parameter of libpq.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) value: Secret,
    /// Its line, counted from 1.
    pub(crate) line: usize,
}

impl Service {
    /// Finds the service as libpq does: in `PGSERVICEFILE` or `~/.pg_service.conf`, then in `pg_service.conf` of `PGSYSCONFDIR`.
    ///
    /// # Errors
    /// When no file has it.
    pub(crate) fn find(name: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, ServiceError> {
        let filled = |name| variable(name).filter(|value| !value.is_empty());
        let own = filled("PGSERVICEFILE")
            .map(PathBuf::from)
            .or_else(|| Some(Path::new(&filled("HOME")?).join(".pg_service.conf")));
        let shared = filled("PGSYSCONFDIR").map(|folder| Path::new(&folder).join("pg_service.conf"));
        let mut failure = ServiceError::NoFile;
        for file in own.into_iter().chain(shared) {
            let service = Self { file, name: name.to_owned() };
            match service.parameters() {
                Ok(_) => return Ok(service),
                Err(error @ ServiceError::Line { .. }) => return Err(error),
                // The reason to show is that of the first file.
                Err(error) if matches!(failure, ServiceError::NoFile) => failure = error,
                Err(_) => {}
            }
        }
        Err(failure)
    }

    /// Returns the file that has the service.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Reads its parameters; of two with one name the first counts, as in libpq.
    ///
    /// # Errors
    /// When the file cannot be read, has no such section, or a line of it is no parameter.
    pub(crate) fn parameters(&self) -> Result<Vec<Parameter>, ServiceError> {
        let text = fs::read_to_string(&self.file)
            .map(Zeroizing::new)
            .map_err(|source| ServiceError::Unreadable { file: self.file.clone(), source })?;
        match section(&text, &self.name) {
            Ok(Some(parameters)) => Ok(parameters),
            Ok(None) => Err(ServiceError::Missing { file: self.file.clone(), name: self.name.clone() }),
            Err(line) => Err(ServiceError::Line { file: self.file.clone(), line }),
        }
    }
}

/// Returns the section's parameters, or the number of a line that is not valid.
fn section(text: &str, name: &str) -> Result<Option<Vec<Parameter>>, usize> {
    let mut found: Option<Vec<Parameter>> = None;
    for (index, line) in text.lines().map(str::trim).enumerate() {
        let number = index.saturating_add(1);
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            if found.is_some() {
                break;
            }
            if header.strip_suffix(']') == Some(name) {
                found = Some(Vec::new());
            }
        } else if let Some(parameters) = &mut found {
            let (name, value) = line.split_once('=').ok_or(number)?;
            let (name, value) = (name.trim_end().to_owned(), Secret::new(value.trim_start()));
            if parameters.iter().all(|parameter| parameter.name != name) {
                parameters.push(Parameter { name, value, line: number });
            }
        }
    }
    Ok(found)
}

impl std::fmt::Debug for Parameter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} in line {}", self.name, self.line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_section_has_its_parameters() {
        let text = "# all\nhost=none\n[other]\nhost=o\n\n[orders]\n host = db \n#x\npassword=a=b\nhost=second\n[orders]\nport=1\n";
        let read = section(text, "orders").unwrap().unwrap();
        let read: Vec<_> = read.iter().map(|p| (p.name.as_str(), p.value.expose(), p.line)).collect();
        assert_eq!(read, [("host", "db", 7), ("password", "a=b", 9)]);
        assert_eq!(section(text, "none"), Ok(None));
        assert_eq!(section("[a]\nhost", "a"), Err(2));
    }

    proptest! {
        #[test]
        fn any_file_is_read_or_refused(text in "[\\[\\]a=# \n]*") {
            drop(section(&text, "a"));
        }
    }
}
