use super::{Client, Error, Options};
use crate::connect::OptionError;
use crate::connect::converter::Converters;
use crate::connect::converter::avro::{Registration, SchemaId, Side};

/// The registries of the converters that need one.
#[derive(Debug, Default)]
pub struct Registries {
    key: Option<Client>,
    value: Option<Client>,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// An option.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// A certificate.
    #[error(transparent)]
    Registry(#[from] Error),
}

impl Registries {
    /// Reads the options of every converter that needs a registry.
    ///
    /// # Errors
    /// When an option has no meaning, or certificates cannot be read.
    pub fn new(converters: &Converters, get: &dyn Fn(&str) -> Option<String>) -> Result<Self, SetupError> {
        let client = |converter: &crate::connect::converter::Converter| {
            let options = converter.avro().map(|avro| Options::parse(avro, get)).transpose()?;
            Ok::<_, SetupError>(options.map(Client::new).transpose()?)
        };
        Ok(Self { key: client(&converters.key)?, value: client(&converters.value)? })
    }

    /// Each of them.
    pub fn clients(&self) -> impl Iterator<Item = &Client> {
        self.key.iter().chain(&self.value)
    }

    /// Asks the registry of the record's part for the id of a schema, once.
    ///
    /// # Errors
    /// When there is no id.
    pub async fn id(&self, registration: &Registration) -> Result<SchemaId, Error> {
        let client = match registration.side {
            Side::Key => self.key.as_ref(),
            Side::Value => self.value.as_ref(),
        };
        match client {
            Some(client) => client.id(registration).await,
            None => Err(Error::Unreachable {
                address: registration.side.option().to_owned(),
                source: std::io::ErrorKind::AddrNotAvailable.into(),
            }),
        }
    }
}
