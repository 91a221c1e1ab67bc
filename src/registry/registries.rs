use super::options::{Lookup, TlsOptions};
use super::{Client, Error, Options};
use crate::connect::converter::registered::{Registration, SchemaId, Side, WrittenSchema};
use crate::http_client::Address;

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

    /// One registry of all records, which is only asked for schemas.
    ///
    /// # Errors
    /// When the system's certificates cannot be read.
    pub(crate) fn at(option: &str, address: Address) -> Result<Self, Error> {
        let options = Options {
            converter: option.to_owned(),
            credentials: address.user.clone(),
            addresses: vec![address],
            lookup: Lookup::Find,
            normalize: false,
            tls: TlsOptions::default(),
        };
        Self::new(Some(options.clone()), Some(options))
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
        self.client(registration.side)?.id(registration).await
    }

    /// Asks the registry of a record's part for the schema with an id, once.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) async fn schema(&self, side: Side, id: SchemaId) -> Result<Option<WrittenSchema>, Error> {
        self.client(side)?.schema(id).await
    }

    /// Whether a record's part has a registry.
    #[must_use]
    pub const fn has(&self, side: Side) -> bool {
        match side {
            Side::Key => self.key.is_some(),
            Side::Value => self.value.is_some(),
        }
    }

    fn client(&self, side: Side) -> Result<&Client, Error> {
        let client = match side {
            Side::Key => self.key.as_ref(),
            Side::Value => self.value.as_ref(),
        };
        client.ok_or_else(|| Error::Unreachable {
            address: side.option().to_owned(),
            source: std::io::ErrorKind::AddrNotAvailable.into(),
        })
    }
}
