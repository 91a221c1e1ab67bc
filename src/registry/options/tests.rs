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
        (CONFLUENT_CLASS, vec![URL, ("discard.type.doc.default", "true")], "say false"),
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
