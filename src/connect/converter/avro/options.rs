use super::ids::Side;
use super::schema::TextOptions;
use super::subject::SubjectNameStrategy;
use crate::connect::OptionError;
use crate::connect::option::{Lookup, boolean};

/// Ids that are remembered when `schemas.cache.config` says nothing, as in both converters.
const IDS_MAX: usize = 1_000;

/// Options that change nothing for the schemas of an outbox: they are about enums of Avro's, unions, maps with optional
/// keys, and about reading.
const WITHOUT_EFFECT: [&str; 5] = [
    "enhanced.avro.schema.support",
    "generalized.sum.type.support",
    "allow.optional.map.keys",
    "flatten.singleton.unions",
    "ignore.default.for.nullables",
];

/// Options of Apicurio's that decide the bytes. What they are when nobody says them differs from version to version.
const DECIDE_THE_WIRE: [(&str, &str, &str); 2] = [
    ("apicurio.registry.headers.enabled", "false", "ids in record headers are not available"),
    ("apicurio.registry.use-id", "contentId", "the registry's Confluent interface knows content ids only"),
];

const AS_CONFLUENT: &str = "apicurio.registry.as-confluent";
const ENABLE_CONFLUENT: &str = "apicurio.registry.enable-confluent-id-handler";
const ID_HANDLER: &str = "apicurio.registry.id-handler";
const ARTIFACT_STRATEGY: &str = "apicurio.registry.artifact-resolver-strategy";

/// The strategies that are available, by the name of their class without its package.
pub const SUBJECT_STRATEGIES: [(&str, Flavor, SubjectNameStrategy); 5] = [
    ("TopicNameStrategy", Flavor::Confluent, SubjectNameStrategy::Topic),
    ("RecordNameStrategy", Flavor::Confluent, SubjectNameStrategy::Record),
    ("TopicRecordNameStrategy", Flavor::Confluent, SubjectNameStrategy::TopicRecord),
    ("TopicIdStrategy", Flavor::Apicurio, SubjectNameStrategy::Topic),
    ("SimpleTopicIdStrategy", Flavor::Apicurio, SubjectNameStrategy::SimpleTopic),
];

/// Whose converter it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavor {
    /// `io.confluent.connect.avro.AvroConverter`
    Confluent,
    /// `io.apicurio.registry.utils.converter.AvroConverter`, in its form that is compatible with Confluent's.
    Apicurio,
}

/// `AvroConverter`, as far as it needs no registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AvroConverter {
    /// The option that names it; its own options begin with this and a point.
    pub key: String,
    /// Whose it is.
    pub flavor: Flavor,
    /// What it converts.
    pub side: Side,
    /// `value.subject.name.strategy`, `key.subject.name.strategy` (`TopicNameStrategy`), and Apicurio's
    /// `apicurio.registry.artifact-resolver-strategy` (`TopicIdStrategy`).
    pub subject: SubjectNameStrategy,
    /// `schemas.cache.config` (1000): how many ids are remembered.
    pub ids_max: usize,
    pub(super) text: TextOptions,
}

impl AvroConverter {
    /// Reads the converter that `key` names as `class`.
    ///
    /// # Errors
    /// When it is asked for something that changes the bytes and is not available.
    pub(in super::super) fn parse(lookup: Lookup<'_>, key: &str, class: &str) -> Result<Self, OptionError> {
        let side = match key.split('.').next() {
            Some("key") => Side::Key,
            Some("value") => Side::Value,
            _ => {
                let reason = "it writes keys and values only, in Connect too; leave the option out, or name \
                              org.apache.kafka.connect.json.JsonConverter";
                return Err(OptionError::new(key, class, reason));
            }
        };
        let flavor = if class.contains("apicurio") { Flavor::Apicurio } else { Flavor::Confluent };
        if flavor == Flavor::Apicurio {
            check_apicurio(lookup, key)?;
        }
        for option in WITHOUT_EFFECT {
            boolean(lookup, &format!("{key}.{option}"), false)?;
        }
        let text = TextOptions {
            metadata: boolean(lookup, &format!("{key}.connect.meta.data"), true)?,
            scrub: boolean(lookup, &format!("{key}.scrub.invalid.names"), false)?,
            lone_records: flavor == Flavor::Apicurio,
        };
        let (subject, ids_max) = (subject(lookup, key, flavor, side)?, ids_max(lookup, key)?);
        Ok(Self { key: key.to_owned(), flavor, side, subject, ids_max, text })
    }

    /// Whether an option, without the converter's own key before it, is one of those that are read here.
    #[must_use]
    pub fn reads(&self, option: &str) -> bool {
        let read = match self.flavor {
            Flavor::Confluent => option == strategy_option(self.flavor, self.side),
            Flavor::Apicurio => {
                [AS_CONFLUENT, ENABLE_CONFLUENT, ID_HANDLER, ARTIFACT_STRATEGY].contains(&option)
                    || DECIDE_THE_WIRE.iter().any(|(name, ..)| *name == option)
            }
        };
        read || WITHOUT_EFFECT.contains(&option)
            || ["connect.meta.data", "scrub.invalid.names", "schemas.cache.config"].contains(&option)
    }
}

/// Only what Confluent's consumers can read is written.
fn check_apicurio(lookup: Lookup<'_>, key: &str) -> Result<(), OptionError> {
    for (option, needed, reason) in DECIDE_THE_WIRE {
        let option = format!("{key}.{option}");
        let said = lookup(&option);
        if said.as_deref().is_none_or(|said| !said.trim().eq_ignore_ascii_case(needed)) {
            let reason = format!(
                "{reason}, and the default is not the same in Apicurio 2 and 3: say {option}={needed}"
            );
            return Err(OptionError::new(option, said.unwrap_or_default(), reason));
        }
    }
    let switched_on = |option: &str| boolean(lookup, &format!("{key}.{option}"), false);
    if switched_on(AS_CONFLUENT)? || switched_on(ENABLE_CONFLUENT)? {
        return Ok(());
    }
    let option = format!("{key}.{ID_HANDLER}");
    let handler = lookup(&option).unwrap_or_default();
    if matches!(simple_name(&handler), "Legacy4ByteIdHandler" | "Default4ByteIdHandler") {
        return Ok(());
    }
    let reason = format!("only ids of 4 bytes are written: say {key}.{AS_CONFLUENT}=true");
    Err(OptionError::new(option, handler, reason))
}

fn subject(
    lookup: Lookup<'_>,
    key: &str,
    flavor: Flavor,
    side: Side,
) -> Result<SubjectNameStrategy, OptionError> {
    let option = format!("{key}.{}", strategy_option(flavor, side));
    let Some(class) = lookup(&option) else { return Ok(SubjectNameStrategy::Topic) };
    let available = SUBJECT_STRATEGIES.iter().filter(|(_, of, _)| *of == flavor);
    let found = available.clone().find(|(name, ..)| *name == simple_name(&class));
    found.map(|(.., strategy)| *strategy).ok_or_else(|| {
        let names: Vec<&str> = available.map(|(name, ..)| *name).collect();
        OptionError::new(option, class, format!("it must be one of {}", names.join(", ")))
    })
}

const fn strategy_option(flavor: Flavor, side: Side) -> &'static str {
    match (flavor, side) {
        (Flavor::Confluent, Side::Key) => "key.subject.name.strategy",
        (Flavor::Confluent, Side::Value) => "value.subject.name.strategy",
        (Flavor::Apicurio, _) => ARTIFACT_STRATEGY,
    }
}

fn ids_max(lookup: Lookup<'_>, key: &str) -> Result<usize, OptionError> {
    let option = format!("{key}.schemas.cache.config");
    let Some(text) = lookup(&option) else { return Ok(IDS_MAX) };
    match text.trim().parse() {
        Ok(number @ 1..) => Ok(number),
        _ => Err(OptionError::new(option, text, "it must be a whole number above 0")),
    }
}

fn simple_name(class: &str) -> &str {
    class.trim().rsplit(['.', '$']).next().unwrap_or_default()
}
