//! Whole configurations, from text to options.

use std::path::PathBuf;

use proptest::prelude::*;

use crate::error::{Diagnose, Exit};
use crate::postgres::{Autocreate, PublishedOperations};

use super::*;

/// A configuration that yields no notice.
const COMPLETE: [&str; 14] = [
    "bootstrap.servers=localhost:9092",
    "topic.prefix=srv",
    "database.hostname=localhost",
    "database.user=postgres",
    "database.password=hunter2",
    "database.dbname=orders",
    "plugin.name=pgoutput",
    "publication.autocreate.mode=filtered",
    "snapshot.mode=no_data",
    "table.include.list=public.outbox",
    "transforms=outbox",
    "transforms.outbox.type=io.debezium.transforms.outbox.EventRouter",
    "key.converter=org.apache.kafka.connect.storage.StringConverter",
    "value.converter=org.apache.kafka.connect.storage.StringConverter",
];

fn case(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/src/config/cases")).join(name)
}

pub(super) fn complete_and(lines: &[&str]) -> Result<Config, ConfigError> {
    let overrides = COMPLETE.iter().chain(lines).map(|line| (*line).to_owned()).collect();
    Config::load(&Sources { overrides, ..Sources::default() })
}

fn draft(lines: &[&str]) -> Draft {
    let overrides = COMPLETE.iter().chain(lines).map(|line| (*line).to_owned()).collect();
    Config::draft(&Sources { overrides, ..Sources::default() }).unwrap()
}

fn file_and_bootstrap(name: &str) -> Config {
    let environment = vec![("OUTBOXD_BOOTSTRAP_SERVERS".into(), "localhost:9092".into())];
    Config::load(&Sources { files: vec![case(name)], environment, overrides: vec![] }).unwrap()
}

pub(super) fn notices(config: &Config) -> Vec<String> {
    config.notices.iter().map(ToString::to_string).collect()
}

#[test]
fn a_complete_configuration_has_nothing_to_report() {
    let config = complete_and(&[]).unwrap();
    assert_eq!(notices(&config), Vec::<String>::new());
    assert_eq!(config.postgres.slot.name.as_str(), "debezium");
    assert_eq!(config.postgres.slot.retry, None);
    assert_eq!(config.postgres.server.port, 5432);
    assert_eq!(config.relay.inflight_records_max, 3_500);
    assert_eq!(config.relay.retries_max, None);
    assert!(config.relay.position.key.starts_with(r#"["srv""#), "{}", config.relay.position.key);
    assert!(config.extended_headers && config.relay.skipped.truncate && !config.relay.skipped.create);
    assert_eq!(config.postgres.publication.operations, PublishedOperations::All);
}

#[test]
fn the_article_runs_with_each_assumption_reported() {
    let config = file_and_bootstrap("article.json");
    let expected = [
        "topic.prefix: database.server.name (orders_server) is used instead",
        "plugin.name: pgoutput decodes the WAL (Debezium's default is decoderbufs)",
        "publication.autocreate.mode: a publication that does not exist is made for the captured tables only, for inserts only",
        "key.converter: keys are sent as text, as StringConverter makes them",
        "value.converter: values are the payload's own bytes",
        "not used: tombstones.on.delete: the router drops deletes together with their tombstones",
    ];
    assert_eq!(notices(&config), expected);
    let defaults = config.notices.iter().filter(|notice| notice.kind == NoticeKind::Default);
    let keys: Vec<_> = defaults.map(|notice| notice.keys.concat()).collect();
    assert_eq!(keys, ["plugin.name", "publication.autocreate.mode", "key.converter", "value.converter"]);
    assert_eq!(config.topic_prefix, "orders_server");
    assert!(config.relay.position.key.starts_with(r#"["outbox-connector""#), "{}", config.relay.position.key);
    assert_eq!(config.postgres.publication.autocreate, Autocreate::Filtered);
    assert_eq!(config.postgres.publication.operations, PublishedOperations::Inserts);
    assert_eq!(
        config.option("transforms.outbox.route.topic.replacement").as_deref(),
        Some("${routedByValue}")
    );
    assert!(!format!("{config:?}{}", config.settings()).contains("hunter2"));
}

#[test]
fn an_event_router_before_cloud_events_is_reported_to_lose_its_values() {
    let converter = "value.converter=io.debezium.converters.CloudEventsConverter";
    let told = "value.converter: CloudEventsConverter makes events of change events only: what the EventRouter has \
                made is sent without its value, as Debezium sends it";
    assert_eq!(notices(&complete_and(&[converter]).unwrap()), [told]);
    let beside = [
        "transforms=outbox,other",
        "transforms.other.type=org.apache.kafka.connect.transforms.InsertField$Value",
    ];
    let mixed = [&[converter][..], &beside].concat();
    assert!(notices(&complete_and(&mixed).unwrap()).contains(&told.to_owned()));
    let without = COMPLETE.iter().filter(|line| !line.starts_with("transforms")).chain([&converter]);
    let overrides = without.map(|line| (*line).to_owned()).collect();
    let config = Config::load(&Sources { overrides, ..Sources::default() }).unwrap();
    assert!(!notices(&config).contains(&told.to_owned()));
}

#[test]
fn debezium_server_brings_its_own_converters() {
    let config =
        Config::load(&Sources { files: vec![case("server-defaults.properties")], ..Sources::default() })
            .unwrap();
    let expected = [
        "not used: quarkus.http.port, quarkus.log.level: there is no Quarkus: --http sets the address of probes and metrics, \
         --log and OUTBOXD_LOG set what is logged",
        "not used: debezium.sink.kafka.producer.key.serializer, debezium.sink.kafka.producer.value.serializer: \
         the converters make the bytes; there are no serializers",
    ];
    let mut told = notices(&config);
    told.sort();
    let mut expected = expected.map(str::to_owned);
    expected.sort();
    assert_eq!(told, expected);
    for key in ["key.converter", "value.converter", "header.converter"] {
        assert_eq!(config.option(key).as_deref(), Some("org.apache.kafka.connect.json.JsonConverter"));
        assert_eq!(config.option(&format!("{key}.schemas.enable")), None);
    }
    assert_eq!(config.kafka.bootstrap_servers, "127.0.0.1:9092");
    assert!(config.relay.position.key.starts_with(r#"["kafka""#), "{}", config.relay.position.key);
    let offsets = config.relay.offsets.as_ref().unwrap();
    assert_eq!(offsets.store, crate::relay::OffsetStore::File("data/offsets.dat".into()));
    assert_eq!(offsets.key.to_string(), r#"["kafka",{"server":"srv"}]"#);
    assert_eq!(offsets.flush_interval, std::time::Duration::from_secs(1));
    assert_eq!(
        config.option("transforms.outbox.route.topic.replacement").as_deref(),
        Some("orders.${routedByValue}")
    );
}

#[test]
fn routed_by_value_survives_every_spelling() {
    let path = std::env::temp_dir().join(format!("outboxd-spelling-{}.properties", std::process::id()));
    for prefix in ["", "debezium."] {
        for spelling in
            ["${routedByValue}", "$${routedByValue}", "\\${routedByValue}", "\\\\${routedByValue}"]
        {
            let key = "transforms.outbox.route.topic.replacement";
            std::fs::write(&path, format!("{prefix}{key}=t.{spelling}\n")).unwrap();
            let overrides = COMPLETE.map(str::to_owned).to_vec();
            let sources = Sources { files: vec![path.clone()], environment: vec![], overrides };
            let config = Config::load(&sources).unwrap();
            assert_eq!(
                config.option("transforms.outbox.route.topic.replacement").as_deref(),
                Some("t.${routedByValue}")
            );
            let config = complete_and(&[&format!("{key}=t.{spelling}")]).unwrap();
            assert_eq!(
                config.option("transforms.outbox.route.topic.replacement").as_deref(),
                Some("t.${routedByValue}")
            );
        }
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn later_sources_win() {
    let variables =
        |list: &[(&str, &str)]| list.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    let mut sources = Sources {
        files: vec![case("article.json"), case("server-defaults.properties")],
        environment: variables(&[("OUTBOXD_SLOT_NAME", "ours"), ("DEBEZIUM_SOURCE_SLOT_NAME", "theirs")]),
        overrides: vec![],
    };
    let config = Config::load(&sources).unwrap();
    assert_eq!(config.topic_prefix, "srv");
    assert_eq!(config.postgres.slot.name.as_str(), "ours");
    sources.overrides = vec!["slot.name=first".into(), "debezium.source.slot.name=last".into()];
    assert_eq!(Config::load(&sources).unwrap().postgres.slot.name.as_str(), "last");
}

#[test]
fn a_converter_has_only_the_options_beside_it() {
    let worker = "bootstrap.servers=k:9092\ngroup.id=g\nkey.converter=W\nkey.converter.schemas.enable=false\n\
                  value.converter=W\nvalue.converter.schemas.enable=false\n";
    // Settings of the value converter in the connector's file, and the result.
    let cases = [
        ("", Some("W"), Some("false"), 0),
        ("value.converter=C", Some("C"), None, 0),
        ("value.converter=C\nvalue.converter.schemas.enable=true", Some("C"), Some("true"), 0),
        ("value.converter.schemas.enable=true", Some("W"), Some("false"), 1),
    ];
    let folder = std::env::temp_dir().join(format!("outboxd-worker-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let files = vec![folder.join("worker.properties"), folder.join("connector.properties")];
    std::fs::write(&files[0], worker).unwrap();
    for (connector, class, schemas, ignored) in cases {
        std::fs::write(&files[1], connector).unwrap();
        let overrides = COMPLETE.iter().filter(|line| !line.contains(".converter=")).copied();
        let overrides = overrides.map(str::to_owned).collect();
        let sources = Sources { files: files.clone(), environment: vec![], overrides };
        let config = Config::load(&sources).unwrap();
        assert_eq!(config.option("value.converter").as_deref(), class, "{connector}");
        assert_eq!(config.option("value.converter.schemas.enable").as_deref(), schemas, "{connector}");
        assert_eq!(config.option("key.converter.schemas.enable").as_deref(), Some("false"), "{connector}");
        let told = notices(&config).into_iter().filter(|notice| notice.contains("belongs to the worker"));
        assert_eq!(told.count(), ignored, "{connector}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn what_must_not_be_ignored_is_refused() {
    for line in include_str!("cases/refused.tsv").lines().skip(1) {
        let (setting, expected) = line.split_once('\t').unwrap();
        let error = complete_and(&[setting]).map(|_| ()).expect_err(setting);
        assert!(error.to_string().contains(expected), "{setting}: {error}");
        assert_eq!(error.exit(), Exit::Usage);
    }
}

#[test]
fn what_is_not_acted_upon_is_reported_with_its_reason() {
    for line in include_str!("cases/told.tsv").lines().skip(1) {
        let (setting, expected) = line.split_once('\t').unwrap_or((line, ""));
        let told = notices(&complete_and(&[setting]).unwrap()).concat();
        assert_eq!(told.is_empty(), expected.is_empty(), "{setting}: {told}");
        assert!(told.contains(expected), "{setting}: {told}");
    }
}

#[test]
fn delays_orders_and_limits_of_tables_are_read() {
    use crate::postgres::{Guardrail, TableOrder};
    let of = |settings: &[&str]| complete_and(settings).unwrap().postgres;
    let plain = of(&["guardrail.collections.limit.action=fail", "guardrail.collections.max=0"]);
    assert_eq!(plain.tables.guardrail, None);
    assert_eq!((plain.snapshot.order, plain.snapshot.delay.as_millis()), (TableOrder::AsListed, 0));
    let said = of(&[
        "guardrail.collections.max=7",
        "snapshot.delay.ms=100",
        "streaming.delay.ms=200",
        "snapshot.tables.order.by.row.count=descending",
    ]);
    assert_eq!(said.tables.guardrail, Some(Guardrail { tables_max: 7, fails: false }));
    assert_eq!(
        [said.snapshot.delay, said.snapshot.streaming_delay].map(|delay| delay.as_millis()),
        [100, 200]
    );
    assert_eq!(said.snapshot.order, TableOrder::MostRowsFirst);
    let fails = of(&["guardrail.collections.max=7", "guardrail.collections.limit.action=FAIL"]);
    assert_eq!(fails.tables.guardrail, Some(Guardrail { tables_max: 7, fails: true }));
}

/// Loads a configuration of tables whose changes are events, without the EventRouter's settings.
fn of_tables(lines: &[&str]) -> Result<Config, ConfigError> {
    let plain = COMPLETE.iter().filter(|line| !line.starts_with("transforms"));
    let overrides = plain.chain(lines).map(|line| (*line).to_owned()).collect();
    Config::load(&Sources { overrides, ..Sources::default() })
}

#[test]
fn the_topic_of_signals_may_be_in_another_kafka_that_is_reached_alike() {
    let heard = ["signal.enabled.channels=kafka", "producer.security.protocol=SSL"];
    let of = |more: &[&str]| of_tables(&[&heard, more].concat());
    assert_eq!(of(&[]).unwrap().relay.signals.servers, None);
    let other = of(&["signal.kafka.bootstrap.servers=other:9092"]).unwrap();
    assert_eq!(other.relay.signals.servers.as_deref(), Some("other:9092"));
    assert!(!notices(&other).concat().contains("signal"), "{:?}", notices(&other));
    assert!(of(&["signal.consumer.security.protocol=SSL"]).is_ok());
    let told = notices(&of(&["signal.consumer.fetch.min.bytes=7"]).unwrap()).concat();
    assert!(told.contains("signals are read one after the other"), "{told}");
    for refused in ["signal.consumer.security.protocol=PLAINTEXT", "signal.consumer.sasl.mechanism=PLAIN"] {
        let error = of(&[refused]).map(|_| ()).expect_err(refused).to_string();
        assert!(error.contains("with the settings of the producer"), "{error}");
    }
    let unheard = of_tables(&["signal.consumer.sasl.mechanism=PLAIN"]);
    assert!(unheard.is_ok(), "no channel needs it");
}

#[test]
fn an_unknown_channel_of_notifications_is_refused() {
    let setting = "notification.enabled.channels=log,org.example.Mine";
    let error = of_tables(&[setting]).map(|_| ()).expect_err(setting).to_string();
    assert!(error.contains("are Java classes"), "{error}");
}

#[test]
fn notifications_by_http_need_a_url() {
    let channels = "notification.enabled.channels=http";
    let setting = |url: &str| format!("notification.http.url={url}");
    for (url, expected) in [("", "notification.http.url is missing"), ("hooks:80", "it must be http://host")]
    {
        let error = of_tables(&[channels, &setting(url)]).map(|_| ()).expect_err(url).to_string();
        assert!(error.contains(expected), "{error}");
    }
    let config = of_tables(&[channels, &setting("https://hooks/a?b=c")]).unwrap();
    assert!(config.notification_posts.is_some() && config.relay.notifications.is_on());
    let unused = of_tables(&[&setting("hooks:80")]).unwrap();
    assert!(unused.notification_posts.is_none());
}

#[test]
fn placeholders_are_secrets() {
    let cases = [
        format!("database.user=${{file:{}:password}}", case("secrets.properties").display()),
        format!("database.user=${{dir:{}:password.txt}}", case("").display()),
    ];
    for setting in &cases {
        let config = complete_and(&[setting]).unwrap();
        assert_eq!(config.postgres.server.user, "hunter2", "{setting}");
        assert!(!config.settings().to_string().contains("hunter2"));
    }
}

#[test]
fn a_dead_letter_topic_goes_with_tolerance() {
    let topic = "errors.deadletterqueue.topic.name=dead";
    let plain = complete_and(&["errors.tolerance=all", topic]).unwrap();
    assert!(
        notices(&plain).concat().contains("dead letters have neither their reason"),
        "{:?}",
        notices(&plain)
    );
    let context = "errors.deadletterqueue.context.headers.enable=false";
    let said = complete_and(&["errors.tolerance=all", topic, context]).unwrap();
    assert_eq!(notices(&said), [""; 0]);
    let options = plain.relay.dead_letters.unwrap();
    let shown = (options.topic.as_str(), options.connector_name.as_str(), options.keys_max);
    assert_eq!(shown, ("dead", "srv", 10_000));
    assert!(!options.context_headers && !options.follow_key);
    let without = complete_and(&[topic]).unwrap();
    assert_eq!(without.relay.dead_letters, None);
    assert!(notices(&without).concat().contains("errors.tolerance is not all"), "{:?}", notices(&without));
    assert_eq!(complete_and(&["errors.tolerance=all"]).unwrap().relay.dead_letters, None);
}

#[test]
fn what_is_looked_for_at_the_ends_of_topics_is_written() {
    let (dedupes, headers) = ("outboxd.delivery.guarantee=tail_dedupe", "outboxd.identity.headers");
    let [yes, no] = ["true", "false"].map(|said| format!("{headers}={said}"));
    let of = |settings: &[&str]| complete_and(settings).map(|config| config.relay.identity_headers);
    assert_eq!(of(&[]).ok(), Some(false));
    assert_eq!(of(&[&yes]).ok(), Some(true));
    assert_eq!(of(&[dedupes]).ok(), Some(true));
    assert_eq!(of(&[dedupes, &yes]).ok(), Some(true));
    let refused = of(&[dedupes, &no]).unwrap_err().to_string();
    assert!(refused.contains("outboxd.delivery.guarantee=tail_dedupe needs them"), "{refused}");
}

#[test]
fn every_mistake_is_reported_at_once_with_its_fix() {
    let error =
        complete_and(&["slot.nam=a", "slot.name=B", "database.port=x", "errors.tolerance=some"]).unwrap_err();
    assert_eq!(error.problems().count(), 4, "{error}");
    let fix = error.fix().unwrap();
    assert!(fix.contains("did you mean slot.name?") && error.to_string().contains("none, all"), "{fix}");
    let empty = Config::load(&Sources::default()).unwrap_err();
    assert!(empty.fix().unwrap().contains("database.hostname="));
}

#[test]
fn what_decodes_messages_stands_before_the_router() {
    let decoder = "io.debezium.connector.postgresql.transforms.DecodeLogicalDecodingMessageContent";
    let of = |transforms: &str, more: &[&str]| {
        let mut settings =
            vec![format!("transforms={transforms}"), format!("transforms.decode.type={decoder}")];
        settings.extend(more.iter().map(|more| (*more).to_owned()));
        complete_and(&settings.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let config = of("decode,outbox", &["transforms.decode.fields.null.include=true"]).unwrap();
    assert_eq!(config.decoder_prefix().as_deref(), Some("transforms.decode."));
    assert_eq!(config.transform_prefix(), "transforms.outbox.");
    assert_eq!(complete_and(&[]).unwrap().decoder_prefix(), None);

    let behind = of("outbox,decode", &[]).unwrap_err();
    assert!(behind.to_string().contains("must stand before the EventRouter"), "{behind}");
    let twice = of("decode,again,outbox", &[&format!("transforms.again.type={decoder}")]).unwrap_err();
    assert!(twice.to_string().contains("one is enough"), "{twice}");
}

#[test]
fn several_routers_make_change_events_of_what_they_leave() {
    let another = ["transforms=outbox,audit", "transforms.audit.type=EventRouter"];
    assert!(complete_and(&another).unwrap().sends_changes());
    let cleanup = complete_and(&[&another[..], &["outboxd.cleanup.enable=true"]].concat()).unwrap_err();
    assert!(cleanup.to_string().contains("that has one EventRouter alone"), "{cleanup}");
}

#[test]
fn mistakes_of_other_modules_are_kept_under_their_full_keys() {
    let lines = ["transforms.outbox.table.op.invalid.behavior=loud", "slot.name=B"];
    let mut draft = draft(&lines);
    for _ in 0..2 {
        let read = draft.section("transforms.outbox.", crate::outbox::EventRouterOptions::read);
        assert!(read.is_ok(), "the default stands in");
    }
    let missing = crate::connect::OptionError::new("value.converter.schema.registry.url", "", "needed");
    let error = draft.keep::<()>(Err(missing)).and(Ok(()));
    let error = draft.finish(error).unwrap_err();
    let told: Vec<_> = error.problems().map(ToString::to_string).collect();
    let expected = [
        "-X: slot.name=B is not allowed: PostgreSQL takes 1 to 63 of a-z, 0-9 and _ for a slot, such as b",
        "-X: transforms.outbox.table.op.invalid.behavior=loud is not allowed: it must be one of warn, error, fatal",
        "value.converter.schema.registry.url is missing: needed",
    ];
    assert_eq!(told, expected);
}

#[test]
fn lists_of_included_and_of_excluded_names_are_refused_together() {
    for kind in ["schema", "message.prefix", "column"] {
        let lines = ["include", "exclude"].map(|list| format!("{kind}.{list}.list=a"));
        let error = complete_and(&lines.each_ref().map(String::as_str)).unwrap_err().to_string();
        assert!(error.contains(&format!("\"{kind}.include.list\" is already specified")), "{error}");
    }
}

#[test]
fn an_unusable_override_does_not_show_what_it_may_hold() {
    let error = complete_and(&["database.password hunter2"]).unwrap_err();
    assert_eq!(error.to_string(), "-X takes key=value, not \"database.password\"");
}

proptest! {
    #[test]
    fn any_override_is_loaded_or_refused(key in "[a-z.]{0,12}", value in ".{0,12}") {
        drop(complete_and(&[&format!("{key}={value}")]));
    }

    #[test]
    fn any_value_of_a_known_key_is_loaded_or_refused(row in 0..known::keys::rows().len(), value in ".{0,12}") {
        let key = known::keys::rows()[row].pattern.replace("<alias>", "outbox").replace('*', "x");
        drop(complete_and(&[&format!("{key}={value}")]));
    }
}
