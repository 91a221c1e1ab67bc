//! Options of CloudEventsConverter.

use super::metadata::{Metadata, Origin};
use super::{Avro, CloudEvents};
use crate::converter::JsonConverter;
use crate::converter::registered::RegisteredConverter;
use crate::{NameAdjustment, OptionReader, Refused};

/// Options that name a registry, each with the converter that Debezium uses with it. The first option that is set applies.
const REGISTRIES: [(&str, &str); 2] = [
    ("apicurio.registry.url", "io.apicurio.registry.utils.converter.AvroConverter"),
    ("schema.registry.url", "io.confluent.connect.avro.AvroConverter"),
];

/// Reads the converter that `key` names as `class`.
///
/// # Errors
/// When the converter is not for values, the options contradict each other, or Avro has no registry.
pub(in crate::converter) fn read(
    options: &mut OptionReader<'_>,
    key: &str,
    class: &str,
) -> Result<CloudEvents, Refused> {
    if key != "value.converter" {
        let reason = "it makes events of values only: Debezium's makes null of keys, and Kafka Connect has it for no headers";
        return Err(options.refuse(key, class, reason));
    }
    let types = [("json", false), ("avro", true)];
    let [in_avro, data_in_avro] = ["serializer.type", "data.serializer.type"]
        .map(|name| options.one_of(&format!("{key}.{name}"), &types, false));
    if in_avro && !data_in_avro {
        let reason = "data in JSON cannot be in an event in Avro: set it to avro";
        return Err(options.refuse(format!("{key}.data.serializer.type"), "json", reason));
    }
    let json = JsonConverter::read(options, &format!("{key}.json"));
    let metadata = Metadata::read(options, key);
    let extensions = options.boolean(&format!("{key}.extension.attributes.enable"), true);
    // Only Avro schemas have names.
    let name = options.filled(&format!("{key}.schema.cloudevents.name"));
    let modes = [
        ("none", NameAdjustment::None),
        ("avro", NameAdjustment::Avro),
        ("avro_unicode", NameAdjustment::AvroUnicode),
    ];
    let names = options.one_of(&format!("{key}.schema.name.adjustment.mode"), &modes, NameAdjustment::Avro);
    let avro = match data_in_avro {
        true => {
            Some(Box::new(Avro { events: in_avro, name, names, ..avro(options, &format!("{key}.avro"))? }))
        }
        false => None,
    };
    Ok(CloudEvents { json, avro, extensions, metadata })
}

/// Reads the options below `key` of the converter that writes Avro.
fn avro(options: &mut OptionReader<'_>, key: &str) -> Result<Avro, Refused> {
    for (option, class) in REGISTRIES {
        if let Some(registry) = options.filled(&format!("{key}.{option}")) {
            let converter = RegisteredConverter::read(options, key, class)?;
            return Ok(Avro { converter, registry, events: false, name: None, names: NameAdjustment::Avro });
        }
    }
    let reason = "it must be given: data in Avro need a registry for their schema; or else apicurio.registry.url there";
    Err(options.refuse(format!("{key}.schema.registry.url"), "", reason))
}

impl Metadata {
    fn read(options: &mut OptionReader<'_>, key: &str) -> Self {
        let [traced, named] =
            ["opentelemetry.tracing.attributes.enable", "schema.data.name.source.header.enable"]
                .map(|name| options.boolean(&format!("{key}.{name}"), false));
        let option = format!("{key}.metadata.source");
        let said = options.filled(&option);
        let mut metadata = Self { traced, data_name: Origin::Generated, ..Self::default() };
        let Some(text) = &said else { return metadata };
        let mut refuse = |reason: &str| {
            options.refuse(option.clone(), text.clone(), reason);
        };
        let mut parts = text.split(',').map(str::trim);
        let global = match parts.next().map(str::to_ascii_lowercase).as_deref() {
            Some("value") => None,
            Some("header") => Some(Origin::Header),
            _ => {
                refuse("it must begin with value or header");
                return metadata;
            }
        };
        metadata.from_headers = global.is_some();
        let (mut id, mut kind, mut trace, mut name) = (global, global, global, global);
        for part in parts {
            let origin =
                match part.split_once(':').map(|(_, from)| from.trim().to_ascii_lowercase()).as_deref() {
                    Some("header") => Origin::Header,
                    Some("generate") => Origin::Generated,
                    _ => {
                        refuse("behind the first, each part must be NAME:header or NAME:generate");
                        return metadata;
                    }
                };
            match part.split(':').next() {
                Some("id") => id = Some(origin),
                Some("type") => kind = Some(origin),
                Some("traceparent") => trace = Some(origin),
                Some("dataSchemaName") => name = Some(origin),
                _ => {
                    refuse("only id, type, traceparent and dataSchemaName can have a source of their own");
                    return metadata;
                }
            }
        }
        let (Some(id), Some(kind)) = (id, kind) else {
            refuse(
                "the value holds neither id nor type: add id:generate,type:generate, or header for one of them",
            );
            return metadata;
        };
        if traced && trace != Some(Origin::Header) {
            refuse("a trace can only come from a header: add traceparent:header");
        }
        metadata.id = id;
        metadata.kind = kind;
        if named && name == Some(Origin::Header) {
            metadata.data_name = Origin::Header;
        }
        metadata
    }
}
