//! Parts of the relay, made from the configuration.

mod error;

pub(in crate::cli) use error::AssembleError;

use crate::change::{ChangeEvents, ChangeOptions};
use crate::config::{Config, ConfigError, Draft, Notice, Problem, Sources};
use crate::connect::TopicNaming;
use crate::connect::column::ColumnOptions;
use crate::connect::converter::registered::SchemaIds;
use crate::connect::converter::{ConvertError, Converters};
use crate::connect::transform::chain::Chain;
use crate::connect::{BeatError, NameAdjustment, OptionError, Refused};
use crate::kafka::Producer;
use crate::otlp;
use crate::outbox::{
    Condition, EventContext, EventRouter, EventRouterOptions, MessageOutbox, MessagePrefixes,
    check_topic_name,
};
use crate::postgres::TableFilter;
use crate::registry::{self, Registries};
use crate::relay::{DeadLetters, FileSettings, NotificationPosts, RelayParts, Route};
use crate::telemetry::ConfigInfo;
use crate::trace::Tracer;

use super::registries;
use super::spans::Tracing;
use crate::cli::args::ConfigArgs;

/// A configuration, understood and made into parts. No server has been asked yet.
#[derive(Debug)]
pub(in crate::cli) struct Assembly {
    pub(in crate::cli) parts: RelayParts,
    pub(in crate::cli) notices: Vec<Notice>,
    pub(in crate::cli) info: ConfigInfo,
    /// Exporter of spans, when records have any.
    pub(in crate::cli) exporter: Option<otlp::Exporter>,
}

impl Assembly {
    /// Returns source and destination, in one line.
    pub(in crate::cli) fn route(&self) -> String {
        let ConfigInfo { database, tables, .. } = &self.info;
        let tables = if tables.is_empty() { "outbox" } else { tables };
        format!("{database}/{tables} → {}", self.parts.kafka.bootstrap_servers)
    }
}

/// Reads the configuration and builds what runs it.
///
/// # Errors
/// When the configuration cannot work.
pub(in crate::cli) fn assemble(args: &ConfigArgs) -> Result<Assembly, AssembleError> {
    let sources = args.sources();
    if sources.is_empty() {
        return Err(AssembleError::NoConfiguration);
    }
    assemble_sources(&sources)
}

/// Assembles a configuration that need not be in a file.
///
/// # Errors
/// When the configuration cannot work.
pub(in crate::cli) fn assemble_sources(sources: &Sources) -> Result<Assembly, AssembleError> {
    let mut draft = Config::draft(sources)?;
    let Tracing { tracer, exporter } = Tracing::read(&draft, sources)?;
    let made = Made::read(&mut draft, tracer.as_ref());
    let (mut config, made) = draft.finish(made)?;
    config.kafka.open_stores()?;
    let file_settings = FileSettings::new(config.settings().of_files());
    let [key_registry, value_registry] = made.registries;
    let registries = Registries::new(key_registry, value_registry)?;
    let producer = Producer::new(&config.kafka)?;
    if let Some(exporter) = &exporter {
        producer.deliveries().end_spans_in(exporter.log());
    }
    let info = ConfigInfo {
        topic_prefix: config.topic_prefix.clone(),
        database: config.postgres.server.database.clone(),
        slot: config.postgres.slot.name.to_string(),
        publication: config.postgres.publication.name.clone(),
        tables: config.postgres.tables.table_include.join(","),
        inflight_events_max: config.relay.inflight_records_max,
        inflight_bytes_max: config.relay.inflight_bytes_max,
        debezium_names: config.debezium_metrics,
        former_names: config.former_metrics,
        metric_tags: config.metric_tags,
    };
    let notification_posts = config.notification_posts.map(NotificationPosts::new);
    let parts = RelayParts {
        notification_posts,
        postgres: config.postgres,
        kafka: config.kafka,
        relay: config.relay,
        tables: made.tables,
        route: made.route,
        messages: made.messages,
        producer,
        dead_letters: made.dead_letters,
        registries,
        file_settings,
    };
    Ok(Assembly { parts, notices: config.notices, info, exporter })
}

/// Returns the mistakes of a configuration, without missing settings: a part of one is no mistake.
pub(in crate::cli) fn mistakes(sources: &Sources) -> Option<ConfigError> {
    let made = Config::draft(sources).map(|mut draft| {
        let made = Made::read(&mut draft, None);
        draft.finish(made).map(drop)
    });
    let problems = match made {
        Ok(Ok(())) => return None,
        Ok(Err(error)) | Err(error) => error.into_problems(),
    };
    ConfigError::of(
        problems.into_iter().filter(|problem| !matches!(problem, Problem::Missing { .. })).collect(),
    )
}

/// Values of the options of other modules.
struct Made {
    route: Route,
    messages: Option<MessageOutbox>,
    tables: TableFilter,
    dead_letters: Option<DeadLetters>,
    /// Options for keys and for values.
    registries: [Option<registry::Options>; 2],
}

impl Made {
    /// Reads all of them, and only then fails, so that every mistake is reported at once.
    fn read(draft: &mut Draft, tracer: Option<&Tracer>) -> Result<Self, Refused> {
        let sends_changes = draft.config().sends_changes();
        let default = if sends_changes { Converters::of_changes() } else { Converters::default() };
        let converters = draft.section("", |options| Converters::read_or(options, default));
        note_unasked(draft, converters.as_ref().ok());
        let registries = converters.as_ref().map(|converters| registries::of_draft(draft, converters)).ok();
        let route = route(draft, converters, tracer);
        let router = route.as_ref().ok().and_then(Route::outbox);
        let messages = router.map_or(Ok(None), |router| messages(draft, router));
        let heartbeat = route.as_ref().map_or(Ok(()), |route| check_heartbeat(draft, route));
        let position = check_position_topic(draft);
        let dead_letters = dead_letters(draft);
        let tables = tables(draft);
        heartbeat?;
        position?;
        Ok(Self {
            route: route?,
            messages: messages?,
            tables,
            dead_letters: dead_letters?,
            registries: registries.unwrap_or_default(),
        })
    }
}

fn route(
    draft: &mut Draft,
    converters: Result<Converters, Refused>,
    tracer: Option<&Tracer>,
) -> Result<Route, Refused> {
    if draft.config().sends_changes() {
        return changes(draft, converters, tracer).map(Route::Changes);
    }
    let processors = draft.config().option("post.processors").filter(|list| !list.trim().is_empty());
    if let Some(list) = processors {
        let reason = "with an EventRouter alone there are none: it would route other rows than those that were inserted";
        return Err(draft.refuse(OptionError::new("post.processors", list, reason)));
    }
    let prefix = draft.config().transform_prefix();
    let options = draft.section(&prefix, EventRouterOptions::read).map(|options| traced(options, tracer));
    let context = context(draft, prefix, converters.as_ref().ok());
    let router = EventRouter::new(options?, converters?, context?);
    draft.keep(router).map(Route::Outbox)
}

/// Options of transforms that change no record: how many names are remembered, which version of a plugin is loaded, which engine
/// runs a script.
const UNUSED: [&str; 4] =
    ["logical.table.cache.size", "logical.destination.cache.size", "type.plugin.version", "language"];

fn traced(options: EventRouterOptions, tracer: Option<&Tracer>) -> EventRouterOptions {
    EventRouterOptions { tracer: tracer.cloned(), ..options }
}

fn changes(
    draft: &mut Draft,
    converters: Result<Converters, Refused>,
    tracer: Option<&Tracer>,
) -> Result<ChangeEvents, Refused> {
    let prefix = format!("{}{}", draft.config().topic_prefix, draft.config().topic_delimiter);
    let mut options = draft.section("", |options| ChangeOptions::read(options, &prefix));
    let mut chain = draft.section("", Chain::read);
    if let Ok(chain) = &chain {
        chain.owners().for_each(|owner| draft.refuse_unasked(&owner, &UNUSED));
    }
    if let (Ok(chain), Some(tracer)) = (&mut chain, tracer) {
        chain.trace(tracer);
    }
    if let Some(reselect) = options.as_ref().ok().and_then(|options| options.reselect.as_ref()) {
        draft.refuse_unasked(reselect.owner(), &UNUSED);
    }
    let [include, exclude] = draft.config().message_prefixes.clone();
    let messages = draft.section("", |options| Ok(MessagePrefixes::read(options, &include, &exclude)));
    if let Ok(options) = &mut options {
        options.messages = messages.unwrap_or_default();
    }
    let context = context(draft, String::new(), converters.as_ref().ok());
    let routers = match (&chain, &converters, &context) {
        (Ok(chain), Ok(converters), Ok(context)) => routers_among(draft, chain, converters, context, tracer),
        _ => Ok(Vec::new()),
    };
    if let Ok(options) = &mut options {
        options.routers = routers?;
    }
    let database = draft.config().postgres.server.database.clone();
    Ok(ChangeEvents::new(options?, chain?, converters?, context?, database))
}

/// Returns the EventRouters among the transforms, by name. Reports each one's mistakes.
fn routers_among(
    draft: &mut Draft,
    chain: &Chain,
    converters: &Converters,
    context: &EventContext,
    tracer: Option<&Tracer>,
) -> Result<Vec<(String, EventRouter)>, Refused> {
    let mut one = |alias: &str| {
        let option_prefix = format!("transforms.{alias}.");
        let options = draft.section(&option_prefix, EventRouterOptions::read).map(|it| traced(it, tracer))?;
        let context = EventContext { option_prefix, ..context.clone() };
        Ok((alias.to_owned(), EventRouter::among_transforms(options, converters.clone(), context)))
    };
    let routers: Vec<_> = chain.event_routers().map(&mut one).collect();
    routers.into_iter().collect()
}

fn context(
    draft: &mut Draft,
    prefix: String,
    converters: Option<&Converters>,
) -> Result<EventContext, Refused> {
    let columns = draft.section("", |options| Ok(ColumnOptions::read(options)));
    let condition = draft.section("", |options| Condition::read(options, &prefix));
    let schema_names = names(draft, "schema.name.adjustment.mode");
    let field_names = names(draft, "field.name.adjustment.mode").map(|names| match names {
        // As Debezium, which changes the names of fields for Avro unasked.
        NameAdjustment::None if converters.is_some_and(Converters::writes_avro) => NameAdjustment::Avro,
        names => names,
    });
    let naming = draft.section("", TopicNaming::read);
    let config = draft.config();
    let run_id = config.extended_headers.then(|| uuid::Uuid::now_v7().to_string());
    Ok(EventContext {
        option_prefix: prefix,
        topic_prefix: config.topic_prefix.clone(),
        topic_delimiter: config.topic_delimiter.clone(),
        naming: naming?,
        run_id,
        columns: columns?,
        condition: condition?,
        rules: config.columns.clone(),
        schema_names: schema_names?,
        field_names: field_names?,
    })
}

fn names(draft: &mut Draft, mode: &str) -> Result<NameAdjustment, Refused> {
    draft.section("", |options| Ok(NameAdjustment::read(options, mode)))
}

fn tables(draft: &mut Draft) -> TableFilter {
    let crate::postgres::Options { tables, snapshot, .. } = draft.config().postgres.clone();
    let read = draft
        .section("", |options| Ok(TableFilter::read(options, &tables).with_snapshot(options, &snapshot)));
    let read = read.unwrap_or_default();
    if draft.config().sends_changes() { read.of_changes() } else { read }
}

const HEARTBEAT_NAME: &str = "topic.heartbeat.name";

/// Refuses heartbeats that the converters could never write.
fn check_heartbeat(draft: &mut Draft, route: &Route) -> Result<(), Refused> {
    let config = draft.config();
    let Some(options) = &config.relay.heartbeat else { return Ok(()) };
    let topic = options.topic.clone();
    if let Err(reason) = check_topic_name(&topic) {
        let key =
            if config.option(HEARTBEAT_NAME).is_some() { HEARTBEAT_NAME } else { "topic.heartbeat.prefix" };
        return Err(draft.refuse(OptionError::new(key, topic, reason.to_string())));
    }
    match route.heartbeat(topic).beat(0, &mut SchemaIds::default()) {
        // A schema is registered when it is needed.
        Ok(_) | Err(BeatError::Convert(ConvertError::Unregistered(_))) => Ok(()),
        Err(BeatError::Transform(error)) => {
            let reason = format!(
                "heartbeats pass the transforms too: {error}; give that one a predicate, or no heartbeats"
            );
            Err(draft.refuse(OptionError::new("heartbeat.interval.ms", "", reason)))
        }
        Err(error) => {
            let reason = format!(
                "key.converter or value.converter cannot write heartbeats, which are structs: {error}"
            );
            Err(draft.refuse(OptionError::new("heartbeat.interval.ms", "", reason)))
        }
    }
}

fn check_position_topic(draft: &mut Draft) -> Result<(), Refused> {
    let Some(topic) = draft.config().relay.position.topic.clone() else { return Ok(()) };
    match check_topic_name(&topic) {
        Ok(()) => Ok(()),
        Err(reason) => {
            Err(draft.refuse(OptionError::new("outboxd.position.topic", topic, reason.to_string())))
        }
    }
}

fn dead_letters(draft: &mut Draft) -> Result<Option<DeadLetters>, Refused> {
    let Some(options) = draft.config().relay.dead_letters.clone() else { return Ok(None) };
    match check_topic_name(&options.topic) {
        Ok(()) => Ok(Some(DeadLetters::new(options))),
        Err(reason) => {
            let error =
                OptionError::new("errors.deadletterqueue.topic.name", options.topic, reason.to_string());
            Err(draft.refuse(error))
        }
    }
}

/// Returns the outbox of logical messages, when the configuration decodes them.
fn messages(draft: &mut Draft, router: &EventRouter) -> Result<Option<MessageOutbox>, Refused> {
    let Some(prefix) = draft.config().decoder_prefix() else { return Ok(None) };
    let [include, exclude] = draft.config().message_prefixes.clone();
    let condition = draft.section("", |options| Condition::read(options, &prefix));
    let prefixes = draft.section("", |options| Ok(MessagePrefixes::read(options, &include, &exclude)));
    let prefixes = prefixes.unwrap_or_default();
    let outbox = draft.section(&prefix, |options| Ok(router.read_messages(prefixes, options)));
    let topic = router.message_topic();
    let unapplied = [
        (prefix, condition?.is_none_or(|condition| condition.holds(&topic, std::iter::empty()))),
        (draft.config().transform_prefix(), router.acts_on_messages()),
    ];
    if let Some((prefix, _)) = unapplied.iter().find(|(_, holds)| !holds) {
        let reason = format!(
            "it excludes logical messages (topic {topic}), which Debezium would send unchanged and outboxd does not send"
        );
        return Err(draft.refuse(OptionError::new(format!("{prefix}predicate"), "", reason)));
    }
    outbox.map(Some)
}

/// Notes the converters without a registry, whose options are not checked. Those of converters with a
/// registry are known one by one, and refused when they are not.
fn note_unasked(draft: &mut Draft, converters: Option<&Converters>) {
    let Some(Converters { key, value, header }) = converters else { return };
    for (name, converter) in [("key", key), ("value", value), ("header", header)] {
        if converter.registered().is_none() {
            draft.note_unasked(&format!("{name}.converter"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Diagnose as _;

    /// A configuration without a mistake.
    const COMPLETE: [&str; 9] = [
        "bootstrap.servers=localhost:9092",
        "topic.prefix=srv",
        "database.hostname=localhost",
        "database.user=postgres",
        "database.dbname=orders",
        "table.include.list=public.outbox",
        "transforms=outbox",
        "transforms.outbox.type=io.debezium.transforms.outbox.EventRouter",
        "plugin.name=pgoutput",
    ];

    fn assembled(settings: &str) -> Result<Assembly, AssembleError> {
        let settings = settings.split(" ; ").filter(|setting| !setting.is_empty());
        let overrides = COMPLETE.into_iter().chain(settings).map(str::to_owned).collect();
        assemble_sources(&Sources { overrides, ..Sources::default() })
    }

    #[test]
    fn all_mistakes_are_reported_at_once() {
        assert!(assembled("").is_ok());
        for line in include_str!("../cases/mistakes.tsv").lines().skip(1) {
            let (settings, told) = line.split_once('\t').unwrap();
            let AssembleError::Config(error) = assembled(settings).unwrap_err() else { panic!("{line}") };
            let problems: Vec<_> = error.problems().map(ToString::to_string).collect();
            for expected in told.split(" ; ") {
                assert!(
                    problems.iter().any(|problem| problem.contains(expected)),
                    "{expected}: {problems:#?}"
                );
            }
            assert_eq!(problems.len(), told.split(" ; ").count(), "{settings}: {problems:#?}");
        }
    }

    #[test]
    fn an_option_that_no_converter_has_is_reported() {
        let notices = |settings: &str| -> Vec<String> {
            let notices = assembled(settings).unwrap().notices;
            let of_converters = notices.iter().filter(|notice| notice.keys[0].contains(".converter."));
            of_converters.map(ToString::to_string).collect()
        };
        let json = "value.converter=org.apache.kafka.connect.json.JsonConverter";
        let told = "not used: value.converter.schemas.enabel: the converter has no such option; \
                    did you mean value.converter.schemas.enable?";
        assert_eq!(notices(&format!("{json} ; value.converter.schemas.enabel=false")), [told]);
        let told = "not used: key.converter.colour: the converter has no such option";
        assert_eq!(notices("key.converter=StringConverter ; key.converter.colour=red"), [told]);
        for known in ["schemas.enable=false", "schemas.cache.size=10", "converter.type=value"] {
            assert_eq!(notices(&format!("{json} ; value.converter.{known}")), [""; 0], "{known}");
        }
        let registry =
            "value.converter.schema.registry.url=http://r ; value.converter.auto.register.schemas=true";
        let avro = format!("value.converter=io.confluent.connect.avro.AvroConverter ; {registry}");
        assert_eq!(notices(&avro), [""; 0]);
    }

    #[test]
    fn each_mistake_has_its_fix() {
        let error =
            assembled("slot.nam=a ; qqqqqqqqqq=b ; transforms.outbox.route.by.feild=x ; column.whitelist=x ; value.converter=AvroConverter")
                .unwrap_err();
        let fix = error.fix().unwrap();
        for expected in [
            "did you mean slot.name? If not, remove slot.nam: Debezium 3.7 does not know it either",
            "remove qqqqqqqqqq: Debezium 3.7 does not know it either",
            "did you mean transforms.outbox.route.by.field?",
            "remove column.whitelist, which Debezium ignores, or set column.include.list to what it meant",
            "add\n  value.converter.schema.registry.url=…",
        ] {
            assert!(fix.contains(expected), "{fix}");
        }
    }
}
