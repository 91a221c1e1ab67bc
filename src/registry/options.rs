//! Options of the connection to a schema registry.

use super::login::{Form, Login, LoginSources};
use super::login_options::{NAMES, PREFIX};
use crate::connect::converter::registered::{Flavor, RegisteredConverter};
use crate::connect::option::closest;
use crate::connect::{OptionError, OptionReader};
use crate::http_client::Address;
use crate::key_store::KeyStore;
use crate::secret::Secret;

/// Connection to the registry, and the way of its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The option that names the converter, which every option here begins with.
    pub converter: String,
    /// `schema.registry.url`, or what `apicurio.registry.url` stands for: the addresses, tried in this order.
    pub addresses: Vec<Address>,
    /// `basic.auth.*`, `bearer.auth.*`, or what is in the addresses.
    pub login: Login,
    /// Names and values of headers: `bearer.auth.logical.cluster` and `bearer.auth.identity.pool.id`.
    pub headers: Vec<(&'static str, String)>,
    /// Lookup of a schema's id.
    pub lookup: Lookup,
    /// `normalize.schemas` (false): schemas that differ only in spelling are one.
    pub normalize: bool,
    /// `schema.registry.ssl.*`
    pub tls: TlsOptions,
}

/// Lookup of a schema's id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lookup {
    /// `auto.register.schemas=true`, the default; Apicurio's `apicurio.registry.auto-register`.
    Register,
    /// `use.latest.version=true`, `apicurio.registry.find-latest=true`: the subject's latest version, which must be of
    /// the rows' form.
    Latest,
    /// Neither: it must be registered already.
    Find,
}

/// `schema.registry.ssl.*`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TlsOptions {
    /// `truststore.location`; the system's authorities when it is absent.
    pub truststore: Option<KeyStore>,
    /// `truststore.certificates`: the same as text.
    pub certificates: Option<String>,
    /// `endpoint.identification.algorithm`: empty to trust a certificate of another host.
    pub any_host: bool,
}

/// Everything that is read here for Confluent's converter.
const CONFLUENT: [&str; 14] = [
    "schema.registry.url",
    "auto.register.schemas",
    "use.latest.version",
    "latest.compatibility.strict",
    "id.compatibility.strict",
    "normalize.schemas",
    "discard.type.doc.default",
    "max.schemas.per.subject",
    "schema.registry.ssl.truststore.type",
    "schema.registry.ssl.truststore.location",
    "schema.registry.ssl.truststore.password",
    "schema.registry.ssl.truststore.certificates",
    "schema.registry.ssl.endpoint.identification.algorithm",
    "schemas.enable",
];

/// Everything that is read here for Apicurio's.
const APICURIO: [&str; 11] = [
    "apicurio.registry.url",
    "apicurio.registry.auto-register",
    "apicurio.registry.auto-register.if-exists",
    "apicurio.registry.find-latest",
    "apicurio.auth.username",
    "apicurio.auth.password",
    "apicurio.registry.request.ssl.truststore.type",
    "apicurio.registry.request.ssl.truststore.location",
    "apicurio.registry.request.ssl.truststore.password",
    "discard.type.doc.default",
    "schemas.enable",
];

/// The path of Apicurio's own interface, and of the one that is compatible with Confluent's.
const APICURIO_PATH: &str = "/apis/registry/";
const CONFLUENT_PATH: &str = "/apis/ccompat/v7";

impl Options {
    /// Reads the options of a converter. It is a mistake when no registry is named, or something is asked for that is
    /// not available.
    pub(crate) fn read(
        converter: &RegisteredConverter,
        options: &mut OptionReader<'_>,
        sources: &LoginSources<'_>,
    ) -> Self {
        let mut reader = Reader { key: &converter.key, name: converter.name(), options };
        reader.must_be("discard.type.doc.default", "false", "it would change the schemas");
        match converter.flavor {
            Flavor::Confluent => reader.confluent(sources),
            Flavor::Apicurio => reader.apicurio(sources),
        }
    }

    /// Refuses an option below the converter's key that outboxd does not read: to ignore it could change the
    /// records.
    ///
    /// # Errors
    /// When it is such an option.
    pub fn check_known(converter: &RegisteredConverter, key: &str, value: &str) -> Result<(), OptionError> {
        let Some(option) = key.strip_prefix(&converter.key).and_then(|rest| rest.strip_prefix('.')) else {
            return Ok(());
        };
        let mut known = converter.own_options();
        match converter.flavor {
            Flavor::Confluent => {
                known.extend(CONFLUENT);
                known.extend(NAMES);
            }
            Flavor::Apicurio => known.extend(APICURIO),
        }
        let is_login = |name: &str| converter.flavor == Flavor::Confluent && NAMES.contains(&name);
        if known.contains(&option) || option.strip_prefix(PREFIX).is_some_and(is_login) {
            return Ok(());
        }
        let fix = match closest(option, known.into_iter().map(str::to_owned)) {
            Some(nearest) => format!("did you mean {}.{nearest}?", converter.key),
            None => "remove it".to_owned(),
        };
        let name = converter.name();
        let reason =
            format!("outboxd's {name} has no such option, and without it the records could be wrong; {fix}");
        Err(OptionError::new(key, value, reason))
    }
}

/// Reads options below a converter's key.
pub(super) struct Reader<'r, 'l> {
    key: &'r str,
    name: &'static str,
    options: &'r mut OptionReader<'l>,
}

impl Reader<'_, '_> {
    fn confluent(&mut self, sources: &LoginSources<'_>) -> Options {
        let addresses = self.addresses("schema.registry.url", Address::parse);
        let login = self.login(&addresses, sources);
        Options {
            converter: self.key.to_owned(),
            addresses,
            login,
            headers: self.login_headers(),
            lookup: self.lookup("auto.register.schemas", true, "use.latest.version"),
            normalize: self.boolean("normalize.schemas", false),
            tls: self.tls("schema.registry.ssl"),
        }
    }

    fn apicurio(&mut self, sources: &LoginSources<'_>) -> Options {
        const PASSWORD: &str = "apicurio.auth.password";
        let addresses = self.addresses("apicurio.registry.url", apicurio_address);
        self.must_be_one(
            "apicurio.registry.auto-register.if-exists",
            &["RETURN_OR_UPDATE", "FIND_OR_CREATE_VERSION"],
        );
        let login = match self.text("apicurio.auth.username") {
            Some(user) => {
                let (key, password) = (self.key_of(PASSWORD), self.text(PASSWORD).unwrap_or_default());
                Login::of_value(&key, Form::PasswordOf(user), &password, (sources.reread)(&key))
            }
            None => self.login_of_addresses("apicurio.registry.url", &addresses, sources),
        };
        Options {
            converter: self.key.to_owned(),
            login,
            headers: Vec::new(),
            addresses,
            lookup: self.lookup("apicurio.registry.auto-register", false, "apicurio.registry.find-latest"),
            normalize: false,
            tls: self.tls("apicurio.registry.request.ssl"),
        }
    }

    fn lookup(&mut self, register: &str, register_default: bool, latest: &str) -> Lookup {
        let (registers, finds_latest) =
            (self.boolean(register, register_default), self.boolean(latest, false));
        match (registers, finds_latest) {
            (true, _) => Lookup::Register,
            (false, true) => Lookup::Latest,
            (false, false) => Lookup::Find,
        }
    }

    fn addresses(&mut self, option: &str, read: fn(&str) -> Option<Address>) -> Vec<Address> {
        let Some(text) = self.text(option) else {
            self.refuse(option, "", &format!("{} needs a schema registry", self.name));
            return Vec::new();
        };
        let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
        let addresses: Option<Vec<Address>> = items.map(read).collect();
        addresses.filter(|addresses| !addresses.is_empty()).unwrap_or_else(|| {
            let form = "it must be http://host:port or https://host:port, with commas between several";
            self.refuse(option, "(a URL)", form);
            Vec::new()
        })
    }

    fn tls(&mut self, prefix: &str) -> TlsOptions {
        let option = |name: &str| format!("{prefix}.{name}");
        let location = option("truststore.location");
        let name = option("truststore.type");
        if let Some(kind) = self.text(&name)
            && !["PEM", "PKCS12", "JKS"].iter().any(|known| kind.trim().eq_ignore_ascii_case(known))
        {
            self.refuse(&name, &kind, "it must be one of PEM, PKCS12, JKS");
        }
        let password = self.text(&option("truststore.password")).map(Secret::new);
        let truststore = self.text(&location).map(|path| KeyStore {
            option: format!("{}.{location}", self.key),
            path,
            password,
        });
        let certificates = self.text(&option("truststore.certificates"));
        let algorithm = format!("{}.{}", self.key, option("endpoint.identification.algorithm"));
        let algorithm = self.options.text(&algorithm);
        TlsOptions {
            truststore,
            certificates,
            any_host: algorithm.is_some_and(|algorithm| algorithm.trim().is_empty()),
        }
    }

    fn must_be(&mut self, option: &str, only: &str, reason: &str) {
        if let Some(said) = self.text(option)
            && !said.trim().eq_ignore_ascii_case(only)
        {
            self.refuse(option, &said, &format!("{reason}, and is not available: set {only}"));
        }
    }

    fn must_be_one(&mut self, option: &str, allowed: &[&str]) {
        if let Some(said) = self.text(option)
            && !allowed.contains(&said.trim())
        {
            self.refuse(option, &said, &format!("it must be one of {}", allowed.join(", ")));
        }
    }

    fn boolean(&mut self, option: &str, default: bool) -> bool {
        self.options.boolean(&format!("{}.{option}", self.key), default)
    }

    /// Returns the whole key of an option.
    pub(super) fn key_of(&self, option: &str) -> String {
        format!("{}.{option}", self.key)
    }

    /// Returns the value, unless it is blank.
    pub(super) fn text(&self, option: &str) -> Option<String> {
        self.options.filled(&format!("{}.{option}", self.key))
    }

    pub(super) fn refuse(&mut self, option: &str, value: &str, reason: &str) {
        self.options.refuse(format!("{}.{option}", self.key), value, reason);
    }
}

/// Returns the address of the Confluent interface beside Apicurio's own one.
fn apicurio_address(text: &str) -> Option<Address> {
    let address = Address::parse(text)?;
    let root = address.path.split(APICURIO_PATH).next().unwrap_or_default();
    let path = if address.path.contains("/apis/ccompat/") {
        address.path.clone()
    } else {
        format!("{}{CONFLUENT_PATH}", root.trim_end_matches("/apis/registry"))
    };
    Some(Address { path, ..address })
}

#[cfg(test)]
mod tests;
