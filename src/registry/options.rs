use crate::connect::converter::registered::{Flavor, RegisteredConverter};
use crate::connect::option::closest;
use crate::connect::{OptionError, OptionReader};
use crate::http_client::{Address, Credentials};
use crate::key_store::KeyStore;
use crate::secret::Secret;

/// Connection to the registry, and the way of its requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// The option that names the converter, which every option here begins with.
    pub converter: String,
    /// `schema.registry.url`, or what `apicurio.registry.url` stands for: the addresses, tried in this order.
    pub addresses: Vec<Address>,
    /// `basic.auth.*`, `bearer.auth.*`, or what stands in the addresses.
    pub credentials: Option<Credentials>,
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
const CONFLUENT: [&str; 19] = [
    "schema.registry.url",
    "auto.register.schemas",
    "use.latest.version",
    "latest.compatibility.strict",
    "id.compatibility.strict",
    "normalize.schemas",
    "discard.type.doc.default",
    "basic.auth.credentials.source",
    "basic.auth.user.info",
    "schema.registry.basic.auth.user.info",
    "bearer.auth.credentials.source",
    "bearer.auth.token",
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
    pub fn read(converter: &RegisteredConverter, options: &mut OptionReader<'_>) -> Self {
        let mut reader = Reader { key: &converter.key, name: converter.name(), options };
        reader.must_be("discard.type.doc.default", "false", "it would change the schemas");
        match converter.flavor {
            Flavor::Confluent => reader.confluent(),
            Flavor::Apicurio => reader.apicurio(),
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
            Flavor::Confluent => known.extend(CONFLUENT),
            Flavor::Apicurio => known.extend(APICURIO),
        }
        if known.contains(&option) {
            return Ok(());
        }
        let cure = match closest(option, known.into_iter().map(str::to_owned)) {
            Some(nearest) => format!("did you mean {}.{nearest}?", converter.key),
            None => "remove it".to_owned(),
        };
        let name = converter.name();
        let reason =
            format!("outboxd's {name} has no such option, and without it the records could be wrong; {cure}");
        Err(OptionError::new(key, value, reason))
    }
}

/// Reads options below a converter's key.
struct Reader<'r, 'l> {
    key: &'r str,
    name: &'static str,
    options: &'r mut OptionReader<'l>,
}

impl Reader<'_, '_> {
    fn confluent(&mut self) -> Options {
        let addresses = self.addresses("schema.registry.url", Address::parse);
        let basic = self.basic("basic.auth.credentials.source", &addresses);
        let bearer = self.bearer();
        Options {
            converter: self.key.to_owned(),
            addresses,
            credentials: basic.or(bearer),
            lookup: self.lookup("auto.register.schemas", true, "use.latest.version"),
            normalize: self.boolean("normalize.schemas", false),
            tls: self.tls("schema.registry.ssl"),
        }
    }

    fn apicurio(&mut self) -> Options {
        let addresses = self.addresses("apicurio.registry.url", apicurio_address);
        self.must_be_one(
            "apicurio.registry.auto-register.if-exists",
            &["RETURN_OR_UPDATE", "FIND_OR_CREATE_VERSION"],
        );
        let user = self.text("apicurio.auth.username");
        let password = self.text("apicurio.auth.password").unwrap_or_default();
        let said = user.map(|user| Credentials::Basic(Secret::new(format!("{user}:{password}"))));
        Options {
            converter: self.key.to_owned(),
            credentials: said.or_else(|| addresses.iter().find_map(|address| address.user.clone())),
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

    fn basic(&mut self, source: &str, addresses: &[Address]) -> Option<Credentials> {
        match self.text(source).as_deref().map(str::trim) {
            None | Some("URL" | "") => addresses.iter().find_map(|address| address.user.clone()),
            Some("USER_INFO") => {
                let deprecated = || self.text("schema.registry.basic.auth.user.info");
                let user = self.text("basic.auth.user.info").or_else(deprecated);
                if user.is_none() {
                    self.refuse("basic.auth.user.info", "", "USER_INFO needs it: user:password");
                }
                user.map(|user| Credentials::Basic(Secret::new(user.trim())))
            }
            Some(other) => {
                self.refuse(
                    source,
                    other,
                    "it must be URL or USER_INFO; instead of SASL_INHERIT write \
                                            USER_INFO",
                );
                None
            }
        }
    }

    fn bearer(&mut self) -> Option<Credentials> {
        const SOURCE: &str = "bearer.auth.credentials.source";
        match self.text(SOURCE).as_deref().map(str::trim) {
            None | Some("") => None,
            Some("STATIC_TOKEN") => {
                let token = self.text("bearer.auth.token");
                if token.is_none() {
                    self.refuse("bearer.auth.token", "", "STATIC_TOKEN needs it");
                }
                token.map(|token| Credentials::Bearer(Secret::new(token.trim())))
            }
            Some(other) => {
                self.refuse(SOURCE, other, "only STATIC_TOKEN is available, with bearer.auth.token");
                None
            }
        }
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

    /// Returns the value, unless it is blank.
    fn text(&self, option: &str) -> Option<String> {
        self.options.filled(&format!("{}.{option}", self.key))
    }

    fn refuse(&mut self, option: &str, value: &str, reason: &str) {
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
mod tests {
    use super::*;
    use crate::connect::converter::Converters;

    type Said<'s> = &'s [(&'s str, &'s str)];
    /// The converter's class, its options, a part of the error.
    type Case<'c> = (&'c str, Vec<(&'c str, &'c str)>, &'c str);

    /// Parses the options of a value converter, which are given without `value.converter.`.
    fn parse(class: &str, said: Said<'_>) -> Result<Options, OptionError> {
        let get = |key: &str| match key.strip_prefix("value.converter") {
            Some("") => Some(class.to_owned()),
            Some(option) => {
                let option = option.strip_prefix('.')?;
                said.iter().find(|(name, _)| *name == option).map(|(_, value)| (*value).to_owned())
            }
            None => None,
        };
        let converters = Converters::parse(&get)?;
        let avro = converters.value.registered().unwrap();
        for (option, value) in said {
            Options::check_known(avro, &format!("value.converter.{option}"), value)?;
        }
        OptionReader::alone(&get, |reader| Ok(Options::read(avro, reader)))
    }

    const URL: (&str, &str) = ("schema.registry.url", "http://a:1,https://b/x");
    const CONFLUENT_CLASS: &str = "io.confluent.connect.avro.AvroConverter";
    const JSON_CLASS: &str = "io.confluent.connect.json.JsonSchemaConverter";
    const PROTOBUF_CLASS: &str = "io.confluent.connect.protobuf.ProtobufConverter";
    const APICURIO_CLASS: &str = "io.apicurio.registry.utils.converter.AvroConverter";
    const COMPATIBLE: [(&str, &str); 4] = [
        ("apicurio.registry.url", "http://a:1/apis/registry/v2"),
        ("apicurio.registry.as-confluent", "true"),
        ("apicurio.registry.use-id", "contentId"),
        ("apicurio.registry.headers.enabled", "false"),
    ];

    #[test]
    fn confluents_options_are_read() {
        let said = [
            URL,
            ("auto.register.schemas", "false"),
            ("use.latest.version", "true"),
            ("basic.auth.credentials.source", "USER_INFO"),
            ("basic.auth.user.info", "me:secret"),
            ("value.subject.name.strategy", "io.confluent.kafka.serializers.subject.RecordNameStrategy"),
        ];
        let options = parse(CONFLUENT_CLASS, &said).unwrap();
        let addresses: Vec<_> = options.addresses.iter().map(ToString::to_string).collect();
        assert_eq!(addresses, ["http://a:1", "https://b:443/x"]);
        assert_eq!(options.lookup, Lookup::Latest);
        assert_eq!(options.credentials, Some(Credentials::Basic(Secret::new("me:secret"))));
        assert!(!format!("{options:?}").contains("secret"), "{options:?}");
        assert_eq!(parse(CONFLUENT_CLASS, &[URL]).unwrap().lookup, Lookup::Register);
    }

    #[test]
    fn apicurios_options_lead_to_its_compatible_interface() {
        let options = parse(APICURIO_CLASS, &COMPATIBLE).unwrap();
        assert_eq!(options.addresses.first().unwrap().to_string(), "http://a:1/apis/ccompat/v7");
        assert_eq!(options.lookup, Lookup::Find);
        let registering = [&COMPATIBLE[..], &[("apicurio.registry.auto-register", "true")]].concat();
        assert_eq!(parse(APICURIO_CLASS, &registering).unwrap().lookup, Lookup::Register);
    }

    #[test]
    fn what_cannot_be_done_is_refused_with_what_can() {
        let without = |option: &str| -> Vec<_> {
            COMPATIBLE.into_iter().filter(|(name, _)| !name.ends_with(option)).collect()
        };
        let cases: Vec<Case<'_>> = vec![
            (CONFLUENT_CLASS, vec![], "needs a schema registry"),
            (CONFLUENT_CLASS, vec![("schema.registry.url", "mock://x")], "http://host:port"),
            (CONFLUENT_CLASS, vec![URL, ("use.schema.id", "7")], "no such option"),
            (
                CONFLUENT_CLASS,
                vec![URL, ("schema.registry.ulr", "http://a")],
                "did you mean value.converter.schema.registry.url?",
            ),
            (CONFLUENT_CLASS, vec![URL, ("rule.executors", "x")], "remove it"),
            (CONFLUENT_CLASS, vec![URL, ("apicurio.registry.url", "http://a")], "no such option"),
            (CONFLUENT_CLASS, vec![URL, ("basic.auth.credentials.source", "SASL_INHERIT")], "USER_INFO"),
            (CONFLUENT_CLASS, vec![URL, ("basic.auth.credentials.source", "USER_INFO")], "user:password"),
            (CONFLUENT_CLASS, vec![URL, ("bearer.auth.credentials.source", "OAUTHBEARER")], "STATIC_TOKEN"),
            (CONFLUENT_CLASS, vec![URL, ("value.subject.name.strategy", "x.My")], "RecordNameStrategy"),
            (CONFLUENT_CLASS, vec![URL, ("schemas.cache.config", "0")], "above 0"),
            (CONFLUENT_CLASS, vec![URL, ("discard.type.doc.default", "true")], "set false"),
            (
                CONFLUENT_CLASS,
                vec![URL, ("schema.registry.ssl.truststore.type", "BCFKS")],
                "one of PEM, PKCS12, JKS",
            ),
            (JSON_CLASS, vec![], "JsonSchemaConverter needs a schema registry"),
            (JSON_CLASS, vec![URL, ("connect.meta.data", "true")], "JsonSchemaConverter has no such option"),
            (
                JSON_CLASS,
                vec![URL, ("decimal.fromat", "NUMERIC")],
                "did you mean value.converter.decimal.format?",
            ),
            (JSON_CLASS, vec![URL, ("decimal.format", "TEXT")], "one of BASE64, NUMERIC"),
            (JSON_CLASS, vec![URL, ("json.indent.output", "true")], "without spaces"),
            (JSON_CLASS, vec![URL, ("object.additional.properties", "no")], "true or false"),
            (PROTOBUF_CLASS, vec![URL, ("skip.known.types", "false")], "references are not registered"),
            (PROTOBUF_CLASS, vec![URL, ("wrapper.for.nullables", "1")], "true or false"),
            (
                PROTOBUF_CLASS,
                vec![URL, ("wrapper.for.nullable", "true")],
                "did you mean value.converter.wrapper.for.nullables?",
            ),
            (
                PROTOBUF_CLASS,
                vec![URL, ("connect.meta.data", "true")],
                "ProtobufConverter has no such option",
            ),
            ("io.apicurio.JsonSchemaConverter", vec![URL], "only Confluent's"),
            (APICURIO_CLASS, without("as-confluent"), "as-confluent=true"),
            (APICURIO_CLASS, without("use-id"), "use-id=contentId"),
            (APICURIO_CLASS, without("headers.enabled"), "headers.enabled=false"),
            (APICURIO_CLASS, without("url"), "needs a schema registry"),
        ];
        for (class, said, expected) in cases {
            let error = parse(class, &said).unwrap_err().to_string();
            assert!(error.contains(expected), "{said:?}: {error}");
        }
    }
}
