//! Kafka's login, read again from its files.

use std::sync::Arc;
use std::time::Duration;

use crate::config::error::ConfigError;
use crate::config::read::Reader;
use crate::config::source::layers::Dialect;
use crate::config::source::settings::Settings;
use crate::kafka::{Login, LoginSource, Options, Property};

use super::producer;

/// The settings of a login, some of whose values come from files.
#[derive(Debug)]
struct FileLogin {
    settings: Settings,
    dialect: Dialect,
}

/// Returns the login of options that were just read, if one of its values or stores is in a file.
pub(super) fn of_files(reader: &Reader<'_>, options: &Options) -> Option<Login> {
    let settings = reader.settings.of_kafka();
    if !settings.has_login_of_files() && !options.names_login_files() {
        return None;
    }
    let source = Arc::new(FileLogin { settings, dialect: reader.dialect });
    Some(Login::new(source))
}

impl LoginSource for FileLogin {
    fn read(&self) -> Result<Vec<Property>, Box<dyn std::error::Error + Send + Sync>> {
        let settings = self.settings.read_again()?;
        let mut reader = Reader::new(&settings, self.dialect);
        let mut options = producer::read_options(&mut reader, Duration::ZERO);
        if let Some(error) = ConfigError::of(reader.problems) {
            return Err(error.into());
        }
        options.open_stores()?;
        Ok(options.login_properties())
    }
}
