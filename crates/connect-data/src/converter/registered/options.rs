//! Options of converters with a schema registry.

use super::avro::{TextOptions, Writer};
use super::form::Form;
use super::ids::Side;
use super::json_schema::JsonSchemaOptions;
use super::protobuf::ProtobufOptions;
use super::subject::SubjectNameStrategy;
use crate::converter::{DecimalFormat, JsonConverter};
use crate::{OptionReader, Refused};

/// Default of `schemas.cache.config` in both vendors' converters: maximum number of remembered ids.
const IDS_MAX: usize = 1_000;

/// Options of `AvroConverter`.
const AVRO_OPTIONS: [&str; 3] = ["connect.meta.data", "scrub.invalid.names", "ignore.default.for.nullables"];

/// Options without effect for Avro: they concern Avro enums, unions, maps with optional keys, and reading.
const AVRO_WITHOUT_EFFECT: [&str; 4] = [
    "enhanced.avro.schema.support",
    "generalized.sum.type.support",
    "allow.optional.map.keys",
    "flatten.singleton.unions",
];

/// Options of `JsonSchemaConverter`.
const JSON_OPTIONS: [&str; 3] =
    ["decimal.format", "object.additional.properties", "ignore.default.for.nullables"];

/// Options without effect for JSON Schema: they concern unions, reading, and Java objects.
const JSON_WITHOUT_EFFECT: [&str; 11] = [
    "use.optional.for.nonrequired",
    "ignore.modern.dialects",
    "flatten.singleton.unions",
    "generalized.sum.type.support",
    "preserve.additional.properties",
    "json.fail.unknown.properties",
    "json.write.dates.iso8601",
    "json.envelope.detection",
    "json.oneof.for.nullables",
    "json.schema.spec.version",
    "json.schema.scan.packages",
];

/// Options of `ProtobufConverter`.
const PROTOBUF_OPTIONS: [&str; 4] = [
    "wrapper.for.nullables",
    "optional.for.nullables",
    "scrub.invalid.names",
    "ignore.default.for.nullables",
];

/// Options without effect for Protobuf: they concern unions, enums, and reading.
const PROTOBUF_WITHOUT_EFFECT: [&str; 8] = [
    "enhanced.protobuf.schema.support",
    "generalized.sum.type.support",
    "generate.index.for.unions",
    "generate.struct.for.nulls",
    "flatten.unions",
    "int.for.enums",
    "optional.for.proto2",
    "wrapper.for.raw.primitives",
];

/// Options of `ProtobufConverter` that would change the registered schemas, with the required value and the reason.
const PROTOBUF_MUST_BE: [(&str, &str, &str); 2] = [
    ("skip.known.types", "true", "schemas with references are not registered"),
    ("only.lookup.references.by.schema", "false", "schemas with references are not registered"),
];

/// Options of `JsonSchemaConverter` that would change the output, with the required value and the reason.
const JSON_MUST_BE: [(&str, &str, &str); 2] = [
    ("json.indent.output", "false", "values are written without spaces"),
    ("json.fail.invalid.schema", "false", "values are not held against their schema"),
];

/// Options of Apicurio's converter that determine the bytes. Their defaults differ from version to version.
const DECIDE_THE_WIRE: [(&str, &str, &str); 2] = [
    ("apicurio.registry.headers.enabled", "false", "ids in record headers are not available"),
    ("apicurio.registry.use-id", "contentId", "the registry's Confluent interface knows content ids only"),
];

const AS_CONFLUENT: &str = "apicurio.registry.as-confluent";
const ENABLE_CONFLUENT: &str = "apicurio.registry.enable-confluent-id-handler";
const ID_HANDLER: &str = "apicurio.registry.id-handler";
const ARTIFACT_STRATEGY: &str = "apicurio.registry.artifact-resolver-strategy";

/// Available strategies, by class name without the package.
pub(crate) const SUBJECT_STRATEGIES: [(&str, Flavor, SubjectNameStrategy); 5] = [
    ("TopicNameStrategy", Flavor::Confluent, SubjectNameStrategy::Topic),
    ("RecordNameStrategy", Flavor::Confluent, SubjectNameStrategy::Record),
    ("TopicRecordNameStrategy", Flavor::Confluent, SubjectNameStrategy::TopicRecord),
    ("TopicIdStrategy", Flavor::Apicurio, SubjectNameStrategy::Topic),
    ("SimpleTopicIdStrategy", Flavor::Apicurio, SubjectNameStrategy::SimpleTopic),
];

/// Vendor of a converter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    /// Confluent's, such as `io.confluent.connect.avro.AvroConverter`.
    Confluent,
    /// `io.apicurio.registry.utils.converter.AvroConverter`, in its form that is compatible with Confluent's.
    Apicurio,
}

/// A converter whose schemas are stored in a registry. It does not contact the registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredConverter {
    /// Option that names the converter; the names of the converter's own options begin with this and a period.
    pub key: String,
    /// Vendor.
    pub flavor: Flavor,
    /// Part of the record that it converts.
    pub side: Side,
    /// `value.subject.name.strategy`, `key.subject.name.strategy` (`TopicNameStrategy`), or Apicurio's
    /// `apicurio.registry.artifact-resolver-strategy` (`TopicIdStrategy`).
    pub subject: SubjectNameStrategy,
    /// `schemas.cache.config` (1000): maximum number of remembered ids.
    pub ids_max: usize,
    pub(super) form: Form,
}

impl RegisteredConverter {
    /// Reads the converter that `key` names as `class`. Options that are not supported are refused in `options`.
    ///
    /// # Errors
    /// When `key` is neither for keys nor for values, or the vendor's converter of this name is not supported.
    pub(in super::super) fn read(
        options: &mut OptionReader<'_>,
        key: &str,
        class: &str,
    ) -> Result<Self, Refused> {
        let side = match key.split('.').next() {
            Some("key") => Side::Key,
            Some("value") => Side::Value,
            _ => {
                let reason = "it writes keys and values only, in Connect too; leave the option out, or name \
                              org.apache.kafka.connect.json.JsonConverter";
                return Err(options.refuse(key, class, reason));
            }
        };
        let flavor = if class.contains("apicurio") { Flavor::Apicurio } else { Flavor::Confluent };
        let form = match (simple_name(class), flavor) {
            ("AvroConverter", _) => avro(options, key, flavor),
            ("JsonSchemaConverter", Flavor::Confluent) => json_schema(options, key),
            ("ProtobufConverter", Flavor::Confluent) => protobuf(options, key),
            _ => {
                return Err(options.refuse(
                    key,
                    class,
                    "only Confluent's converter of this name is available",
                ));
            }
        };
        let (subject, ids_max) = (subject(options, key, flavor, side), ids_max(options, key));
        Ok(Self { key: key.to_owned(), flavor, side, subject, ids_max, form })
    }

    /// Returns the options that this module reads, without the prefix of the converter's key.
    #[must_use]
    pub fn own_options(&self) -> Vec<&'static str> {
        let mut own = vec!["schemas.cache.config", strategy_option(self.flavor, self.side)];
        if self.flavor == Flavor::Apicurio {
            own.extend([AS_CONFLUENT, ENABLE_CONFLUENT, ID_HANDLER]);
            own.extend(DECIDE_THE_WIRE.map(|(name, ..)| name));
        }
        match self.form {
            Form::Avro(..) => {
                own.extend(AVRO_OPTIONS);
                own.extend(AVRO_WITHOUT_EFFECT);
            }
            Form::JsonSchema(_) => {
                own.extend(JSON_OPTIONS);
                own.extend(JSON_MUST_BE.map(|(name, ..)| name));
                own.extend(JSON_WITHOUT_EFFECT);
            }
            Form::Protobuf(_) => {
                own.extend(PROTOBUF_OPTIONS);
                own.extend(PROTOBUF_MUST_BE.map(|(name, ..)| name));
                own.extend(PROTOBUF_WITHOUT_EFFECT);
            }
        }
        own
    }

    /// Reports whether this is an `AvroConverter`.
    #[must_use]
    pub const fn writes_avro(&self) -> bool {
        matches!(self.form, Form::Avro(..))
    }

    /// Returns the converter's class without its package.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        self.form.name()
    }
}

fn avro(options: &mut OptionReader<'_>, key: &str, flavor: Flavor) -> Form {
    if flavor == Flavor::Apicurio {
        check_apicurio(options, key);
    }
    for option in AVRO_WITHOUT_EFFECT {
        options.boolean(&format!("{key}.{option}"), false);
    }
    let text = TextOptions {
        metadata: options.boolean(&format!("{key}.connect.meta.data"), true),
        scrub: options.boolean(&format!("{key}.scrub.invalid.names"), false),
        lone_records: flavor == Flavor::Apicurio,
    };
    // Apicurio's converter does not have this option.
    let ignore_defaults =
        options.boolean(&format!("{key}.ignore.default.for.nullables"), false) && flavor == Flavor::Confluent;
    Form::Avro(flavor, text, Writer { ignore_defaults })
}

fn json_schema(options: &mut OptionReader<'_>, key: &str) -> Form {
    check_fixed(options, key, &JSON_MUST_BE);
    let formats = [("BASE64", DecimalFormat::Base64), ("NUMERIC", DecimalFormat::Numeric)];
    let ignores_defaults = options.boolean(&format!("{key}.ignore.default.for.nullables"), false);
    let values = JsonConverter {
        schemas: false,
        decimal_format: options.one_of(&format!("{key}.decimal.format"), &formats, DecimalFormat::Base64),
        replace_null_with_default: !ignores_defaults,
        named_entries: true,
    };
    let additional_properties = options.boolean(&format!("{key}.object.additional.properties"), true);
    Form::JsonSchema(JsonSchemaOptions { values, additional_properties })
}

fn protobuf(options: &mut OptionReader<'_>, key: &str) -> Form {
    check_fixed(options, key, &PROTOBUF_MUST_BE);
    let [wrappers, optionals, scrub, ignore_defaults] =
        PROTOBUF_OPTIONS.map(|option| options.boolean(&format!("{key}.{option}"), false));
    Form::Protobuf(ProtobufOptions { wrappers, optionals, scrub, ignore_defaults })
}

/// Refuses options that do not have their only supported value.
fn check_fixed(options: &mut OptionReader<'_>, key: &str, fixed: &[(&str, &str, &str)]) {
    for (option, needed, reason) in fixed {
        let option = format!("{key}.{option}");
        if let Some(said) = options.text(&option)
            && !said.trim().eq_ignore_ascii_case(needed)
        {
            options.refuse(option, said, format!("{reason}: leave it out, or set {needed}"));
        }
    }
}

/// Refuses options that would produce bytes that Confluent's consumers cannot read.
fn check_apicurio(options: &mut OptionReader<'_>, key: &str) {
    for (option, needed, reason) in DECIDE_THE_WIRE {
        let option = format!("{key}.{option}");
        let said = options.text(&option);
        if said.as_deref().is_none_or(|said| !said.trim().eq_ignore_ascii_case(needed)) {
            let reason = format!(
                "{reason}, and the default is not the same in Apicurio 2 and 3: set {option}={needed}"
            );
            options.refuse(option, said.unwrap_or_default(), reason);
        }
    }
    let [as_confluent, enabled] =
        [AS_CONFLUENT, ENABLE_CONFLUENT].map(|option| options.boolean(&format!("{key}.{option}"), false));
    let option = format!("{key}.{ID_HANDLER}");
    let handler = options.text(&option).unwrap_or_default();
    let is_short = matches!(simple_name(&handler), "Legacy4ByteIdHandler" | "Default4ByteIdHandler");
    if !as_confluent && !enabled && !is_short {
        let reason = format!("only ids of 4 bytes are written: set {key}.{AS_CONFLUENT}=true");
        options.refuse(option, handler, reason);
    }
}

fn subject(options: &mut OptionReader<'_>, key: &str, flavor: Flavor, side: Side) -> SubjectNameStrategy {
    let option = format!("{key}.{}", strategy_option(flavor, side));
    let Some(class) = options.text(&option) else { return SubjectNameStrategy::Topic };
    let available = SUBJECT_STRATEGIES.iter().filter(|(_, of, _)| *of == flavor);
    if let Some((.., strategy)) = available.clone().find(|(name, ..)| *name == simple_name(&class)) {
        return *strategy;
    }
    let names: Vec<&str> = available.map(|(name, ..)| *name).collect();
    options.refuse(option, class, format!("it must be one of {}", names.join(", ")));
    SubjectNameStrategy::Topic
}

const fn strategy_option(flavor: Flavor, side: Side) -> &'static str {
    match (flavor, side) {
        (Flavor::Confluent, Side::Key) => "key.subject.name.strategy",
        (Flavor::Confluent, Side::Value) => "value.subject.name.strategy",
        (Flavor::Apicurio, _) => ARTIFACT_STRATEGY,
    }
}

fn ids_max(options: &mut OptionReader<'_>, key: &str) -> usize {
    let option = format!("{key}.schemas.cache.config");
    let Some(text) = options.text(&option) else { return IDS_MAX };
    match text.trim().parse() {
        Ok(number @ 1..) => number,
        _ => {
            options.refuse(option, text, "it must be a whole number above 0");
            IDS_MAX
        }
    }
}

fn simple_name(class: &str) -> &str {
    class.trim().rsplit(['.', '$']).next().unwrap_or_default()
}
