use super::{Client, Error, Options};
use crate::connect::converter::registered::{Registration, SchemaId, Side};

/// The registries of the converters that need one.
#[derive(Debug, Default)]
pub struct Registries {
    key: Option<Client>,
    value: Option<Client>,
}

impl Registries {
    /// The registries that these options name, for keys and for values.
    ///
    /// # Errors
    /// When certificates cannot be read.
    pub fn new(key: Option<Options>, value: Option<Options>) -> Result<Self, Error> {
        Ok(Self { key: key.map(Client::new).transpose()?, value: value.map(Client::new).transpose()? })
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
