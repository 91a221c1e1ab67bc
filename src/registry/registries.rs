//! Registries of the converters.

use super::login::Login;
use super::options::{Lookup, TlsOptions};
use super::{Client, Error, Options};
use crate::connect::converter::registered::{Registration, SchemaId, Side, WrittenSchema};
use crate::http_client::Address;

/// Option of commands that get only the address of a registry.
const COMMAND_LINE: &str = "--schema-registry";

/// The registries of the converters that need one.
#[derive(Debug, Default)]
pub struct Registries {
    key: Option<Client>,
    value: Option<Client>,
}

impl Registries {
    /// Creates clients of the registries that these options name, for keys and for values.
    ///
    /// # Errors
    /// When certificates cannot be read.
    pub fn new(key: Option<Options>, value: Option<Options>) -> Result<Self, Error> {
        Ok(Self { key: key.map(Client::new).transpose()?, value: value.map(Client::new).transpose()? })
    }

    /// Creates a client of one registry for all records, which `--schema-registry` names and which is only
    /// queried for schemas.
    ///
    /// # Errors
    /// When the system's certificates cannot be read.
    pub(crate) fn at(address: Address) -> Result<Self, Error> {
        let options = Options::at(address);
        Self::new(Some(options.clone()), Some(options))
    }

    /// Returns each of them.
    pub fn clients(&self) -> impl Iterator<Item = &Client> {
        self.key.iter().chain(&self.value)
    }

    /// Requests the id of a schema from the registry of the record's part, once.
    ///
    /// # Errors
    /// When there is no id.
    pub async fn id(&self, registration: &Registration) -> Result<SchemaId, Error> {
        self.client(registration.side)?.id(registration).await
    }

    /// Requests the schema with an id from the registry of a record's part, once.
    ///
    /// # Errors
    /// When it does not answer.
    pub(crate) async fn schema(&self, side: Side, id: SchemaId) -> Result<Option<WrittenSchema>, Error> {
        self.client(side)?.schema(id).await
    }

    /// Returns whether a record's part has a registry.
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

impl Options {
    /// Makes options of one registry that is only queried for schemas, as the command line names it.
    fn at(address: Address) -> Self {
        Self {
            converter: COMMAND_LINE.to_owned(),
            login: Login::of_address(COMMAND_LINE, &address),
            headers: Vec::new(),
            addresses: vec![address],
            lookup: Lookup::Find,
            normalize: false,
            tls: TlsOptions::default(),
        }
    }

    /// Returns how to set credentials.
    pub(super) fn login_fix(&self) -> String {
        let converter = &self.converter;
        if converter == COMMAND_LINE {
            return format!(
                "{COMMAND_LINE} https://USER:PASSWORD@HOST:PORT, as a user who may read subjects"
            );
        }
        format!(
            "set {converter}.basic.auth.credentials.source=USER_INFO and {converter}.basic.auth.user.info, and let \
             that user read and write subjects"
        )
    }
}
