use super::ids::Side;
use super::schema::TextOptions;
use super::subject::SubjectNameStrategy;
use crate::connect::{OptionReader, Refused};

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
pub(crate) const SUBJECT_STRATEGIES: [(&str, Flavor, SubjectNameStrategy); 5] = [
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
        if flavor == Flavor::Apicurio {
            check_apicurio(options, key);
        }
        for option in WITHOUT_EFFECT {
            options.boolean(&format!("{key}.{option}"), false);
        }
        let text = TextOptions {
            metadata: options.boolean(&format!("{key}.connect.meta.data"), true),
            scrub: options.boolean(&format!("{key}.scrub.invalid.names"), false),
            lone_records: flavor == Flavor::Apicurio,
        };
        let (subject, ids_max) = (subject(options, key, flavor, side), ids_max(options, key));
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
