//! The transforms: the EventRouter, and the decoder of logical messages before it.

use super::left_out;
use crate::config::error::Problem;
use crate::config::read::Reader;
use crate::config::source::settings::Setting;

/// Transform that outboxd implements.
const EVENT_ROUTER: &str = "io.debezium.transforms.outbox.EventRouter";

/// Transform that decodes logical messages into events of an outbox.
const DECODER: &str = "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent";

/// Transform that creates spans.
const SPANS: &str = "io.debezium.transforms.tracing.ActivateTracingSpan";

/// Aliases of the configured transforms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::config) struct Transforms {
    /// Alias of the EventRouter. Without one, rows become change events.
    pub(in crate::config) router: Option<String>,
    /// Alias of `DecodeLogicalDecodingMessageContent`.
    pub(in crate::config) decoder: Option<String>,
}

/// Returns the names in `transforms`.
pub(in crate::config) fn aliases(reader: &Reader<'_>) -> Vec<String> {
    let list = reader.text("transforms").unwrap_or_default();
    list.split(',').map(str::trim).filter(|alias| !alias.is_empty()).map(str::to_owned).collect()
}

/// Returns whether a key belongs to no transform, or to one that `transforms` names.
pub(in crate::config) fn is_declared(aliases: &[String], key: &str) -> bool {
    let alias = key.strip_prefix("transforms.").and_then(|rest| rest.split('.').next());
    alias.is_none_or(|alias| aliases.iter().any(|declared| declared == alias))
}

/// Returns whether a key belongs to an unavailable transform, which is refused as a whole.
pub(in crate::config) fn is_foreign_transform(reader: &Reader<'_>, key: &str) -> bool {
    let alias = key.strip_prefix("transforms.").and_then(|rest| rest.split('.').next());
    let class = alias.and_then(|alias| reader.text(&format!("transforms.{alias}.type")));
    class.is_some_and(|class| !is_event_router(class) && !is_decoder(class))
}

/// Returns whether one of the transforms is an EventRouter, for all records or for some.
pub(in crate::config) fn is_there(reader: &Reader<'_>) -> bool {
    let classes = aliases(reader);
    let mut classes = classes.iter().filter_map(|alias| reader.text(&format!("transforms.{alias}.type")));
    classes.any(is_event_router)
}

/// Returns whether all rows are events of an outbox. The only transforms are then one EventRouter, decoders of
/// messages, or both; the predicate of the EventRouter excludes no table, and there are no transaction records.
pub(in crate::config) fn is_outbox(reader: &Reader<'_>) -> bool {
    let aliases = aliases(reader);
    let classes = aliases.iter().map(|alias| reader.text(&format!("transforms.{alias}.type")));
    let classes: Vec<_> = classes.flatten().collect();
    let is_alone = classes.iter().all(|class| is_event_router(class) || is_decoder(class))
        && classes.iter().filter(|class| is_event_router(class)).count() <= 1;
    !classes.is_empty()
        && is_alone
        && !left_out::shares(reader, &aliases)
        && !tells_transactions(reader, &classes)
}

/// Returns whether there are transaction records, which an EventRouter does not change. Without a list of tables only
/// outboxes are captured, and with a decoder of messages there is no other transform: neither case has such records.
fn tells_transactions(reader: &Reader<'_>, classes: &[&str]) -> bool {
    let is_asked = reader.text("provide.transaction.metadata");
    is_asked.is_some_and(|asked| asked.trim().eq_ignore_ascii_case("true"))
        && reader.filled("table.include.list").is_some()
        && classes.iter().all(|class| is_event_router(class))
}

/// Finds the transforms' aliases, refuses every other transform, and checks that the replacement still routes.
pub(in crate::config) fn find(reader: &mut Reader<'_>) -> Transforms {
    let (mut router, mut decoder) = (None, None);
    let is_outbox = is_outbox(reader);
    for alias in aliases(reader) {
        let key = format!("transforms.{alias}.type");
        let Some(setting) = reader.settings.get(&key) else {
            reader.missing(&key, "`transforms` names this transform", &[(&key, EVENT_ROUTER)]);
            continue;
        };
        // The pipeline of change events reads these transforms.
        if !is_outbox {
            if is_event_router(&setting.value) {
                check_replacement(reader, &format!("transforms.{alias}.route.topic.replacement"));
            }
            continue;
        }
        if is_event_router(&setting.value) && router.is_none() {
            router = Some(alias);
        } else if is_decoder(&setting.value) && decoder.is_none() && router.is_none() {
            decoder = Some(alias);
        } else {
            let fix = format!("take {alias:?} out of `transforms`");
            reader.problems.push(Problem::refused(setting, reason(&setting.value), fix));
        }
    }
    if router.is_none() && decoder.is_some() && reader.problems.iter().all(|problem| !is_about_type(problem))
    {
        let lines = [("transforms", "outbox"), ("transforms.outbox.type", EVENT_ROUTER)];
        reader.missing("transforms", "without the EventRouter a logical message is no event", &lines);
    }
    if !is_outbox {
        let of_others = match is_there(reader) {
            true => "not an EventRouter alone: each change of another captured table becomes a change event",
            false => "no EventRouter: each change of a captured table becomes a change event",
        };
        reader.assume("transforms", of_others);
    }
    if let Some(router) = &router {
        check_replacement(reader, &format!("transforms.{router}.route.topic.replacement"));
    }
    Transforms { router, decoder }
}

/// Returns whether records have spans. Options of spans do not enable them, because spans add a header to each record;
/// a notice reports this.
pub(in crate::config) fn tracing(reader: &mut Reader<'_>) -> bool {
    const ENABLE: &str = "outboxd.tracing.enable";
    let enabled = reader.boolean(ENABLE, false);
    let asks = |(key, setting): (&str, &Setting)| {
        let option = key.strip_prefix("transforms.").and_then(|rest| rest.split_once('.'))?.1;
        let is_asked = option.starts_with("tracing.") || option == "type" && setting.value.trim() == SPANS;
        is_asked.then(|| key.to_owned())
    };
    let asking = reader.settings.iter().find_map(asks);
    if let Some(key) = asking.filter(|_| !enabled) {
        reader.assume(
            &key,
            format!("no spans are made, as in Kafka Connect without OpenTelemetry; {ENABLE}=true makes them"),
        );
    }
    enabled
}

fn is_event_router(class: &str) -> bool {
    matches!(class.trim(), EVENT_ROUTER | "EventRouter")
}

fn is_decoder(class: &str) -> bool {
    matches!(class.trim(), DECODER | "DecodeLogicalDecodingMessageContent")
}

fn is_about_type(problem: &Problem) -> bool {
    let key = match problem {
        Problem::Missing { key, .. } => key,
        Problem::Refused { said, .. } => &said.key,
        _ => return false,
    };
    key.contains("transforms.") && key.ends_with(".type")
}

fn reason(class: &str) -> &'static str {
    if is_decoder(class) {
        return "one is enough, and it must stand before the EventRouter, which routes what it decodes";
    }
    "leaving a transform out would change the records"
}

/// Checks the replacement. A shell, a compose file or Quarkus may have expanded `${routedByValue}` to nothing.
fn check_replacement(reader: &mut Reader<'_>, key: &str) {
    let Some(setting) = reader.settings.get(key) else { return };
    if setting.value.trim().is_empty() {
        let cause = "it expanded to nothing before it came here: write $${routedByValue} or \\${routedByValue} \
                     where a shell, a compose file or Quarkus reads it first";
        reader.invalid(setting, cause);
    } else if !setting.value.contains('$') {
        let text = format!(
            "every event goes to the one topic {setting}, because it does not contain \
                            ${{routedByValue}}"
        );
        let written = setting.written.clone();
        reader.notices.push(crate::config::notice::Notice::assumption(&written, text));
    }
}
