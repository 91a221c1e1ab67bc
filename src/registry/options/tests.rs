//! Tests of the options of registries.

use super::*;
use crate::connect::converter::Converters;
use crate::credentials::{ClientCredentials, Identity, Source};

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
    OptionReader::alone(&get, |reader| Ok(Options::read(avro, reader, &LoginSources::none())))
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
    let key = "value.converter.basic.auth.user.info";
    assert_eq!(options.login, Login::of_value(key, Form::UserInfo, "me:secret", None));
    assert!(!format!("{options:?}").contains("secret"), "{options:?}");
    assert_eq!(parse(CONFLUENT_CLASS, &[URL]).unwrap().lookup, Lookup::Register);
}

#[test]
fn tokens_are_asked_for_by_confluents_names() {
    let said = [
        URL,
        ("bearer.auth.credentials.source", "OAUTHBEARER"),
        ("schema.registry.bearer.auth.issuer.endpoint.url", "https://login/token"),
        ("bearer.auth.client.id", "orders"),
        ("bearer.auth.client.secret", "canary"),
        ("bearer.auth.scope", "registry"),
        ("bearer.auth.logical.cluster", "lsrc-1"),
        ("bearer.auth.identity.pool.id", "pool-2"),
        ("bearer.auth.cache.expiry.buffer.seconds", "60"),
    ];
    let options = parse(CONFLUENT_CLASS, &said).unwrap();
    let client = ClientCredentials {
        endpoint: "https://login/token".to_owned(),
        id: "orders".to_owned(),
        secret: Secret::new("canary"),
        scope: Some("registry".to_owned()),
    };
    let of = |client| Login::with_tokens(Source::identity("", Identity::Client(client)));
    assert_eq!(options.login, of(client.clone()));
    assert_ne!(options.login, of(ClientCredentials { scope: None, ..client }));
    let headers = [("target-sr-cluster", "lsrc-1"), ("Confluent-Identity-Pool-Id", "pool-2")];
    assert_eq!(options.headers, headers.map(|(name, value)| (name, value.to_owned())));
    assert!(!format!("{options:?}").contains("canary"), "{options:?}");
    let of_url = parse(CONFLUENT_CLASS, &[("schema.registry.url", "http://a,http://me:canary@b")]).unwrap();
    assert_ne!(of_url.login, parse(CONFLUENT_CLASS, &[URL]).unwrap().login);
    assert!(!format!("{of_url:?}").contains("canary"), "{of_url:?}");
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
        (
            CONFLUENT_CLASS,
            vec![URL, ("bearer.auth.credentials.source", "CUSTOM")],
            "a Java class cannot be loaded",
        ),
        (
            CONFLUENT_CLASS,
            vec![URL, ("bearer.auth.credentials.source", "IMDS")],
            "one of STATIC_TOKEN, OAUTHBEARER",
        ),
        (
            CONFLUENT_CLASS,
            vec![URL, ("bearer.auth.credentials.source", "STATIC_TOKEN")],
            "STATIC_TOKEN needs it",
        ),
        (
            CONFLUENT_CLASS,
            vec![URL, ("bearer.auth.credentials.source", "OAUTHBEARER")],
            "OAUTHBEARER needs it",
        ),
        (
            CONFLUENT_CLASS,
            vec![URL, ("schema.registry.bearer.auth.credentials.source", "SASL_OAUTHBEARER_INHERIT")],
            "Kafka's clients have no tokens for a registry",
        ),
        (CONFLUENT_CLASS, vec![URL, ("bearer.auth.logical.cluster", "lsrc\n1")], "it must be an id"),
        (
            CONFLUENT_CLASS,
            vec![URL, ("bearer.auth.tokn", "x")],
            "did you mean value.converter.bearer.auth.token?",
        ),
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
        (PROTOBUF_CLASS, vec![URL, ("connect.meta.data", "true")], "ProtobufConverter has no such option"),
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
