//! Signals, incremental snapshots and notifications.

use std::path::PathBuf;
use std::time::Duration;

use crate::config::brokers::bootstrap;
use crate::config::known::check;
use crate::config::read::Reader;
use crate::relay::PostOptions;
use crate::signal::{NotificationOptions, SignalOptions, Watermarks, unquoted};

const TABLE: &str = "signal.data.collection";
const CHANNELS: &str = "signal.enabled.channels";
const CONSUMER: &str = "signal.consumer.";
/// Keys of the brokers. The first one that is set counts, as in Debezium.
const SERVERS: [&str; 2] = ["signal.consumer.bootstrap.servers", "signal.kafka.bootstrap.servers"];
const NOTIFICATION_CHANNELS: &str = "notification.enabled.channels";
const NOTIFICATION_URL: &str = "notification.http.url";
const NOTIFICATION_TOPIC: &str = "notification.sink.topic.name";

/// Reads the options of signals. Without `sends_changes` an EventRouter makes the records, and no signal is read.
pub(in crate::config) fn options(
    reader: &mut Reader<'_>,
    topic_prefix: &str,
    sends_changes: bool,
    read_only: bool,
) -> SignalOptions {
    let table = reader.filled(TABLE).map(|name| unquoted(name.trim()));
    let file = reader.filled("signal.file").unwrap_or("file-signals.txt");
    let topic =
        reader.filled("signal.kafka.topic").map_or_else(|| format!("{topic_prefix}-signal"), str::to_owned);
    let channels = channels(reader);
    let strategy = watermarks(reader);
    let watermarks = if read_only { Watermarks::Messages } else { strategy };
    let hears_topic = channels.contains(&"kafka");
    if hears_topic {
        check_consumer(reader);
    }
    let mut options = SignalOptions {
        from_table: channels.contains(&"source"),
        file: channels.contains(&"file").then(|| PathBuf::from(file)),
        topic: hears_topic.then_some(topic),
        servers: servers(reader),
        group: reader.filled("signal.kafka.groupId").unwrap_or("kafka-signal").to_owned(),
        key: topic_prefix.to_owned(),
        poll_interval: reader.millis("signal.poll.interval.ms", 1, Duration::from_secs(5)),
        chunk_rows: reader.integer("incremental.snapshot.chunk.size", 1..=1_000_000, 1024),
        watermarks,
        table,
    };
    let asked = [TABLE, CHANNELS].into_iter().find(|key| reader.filled(key).is_some());
    if asked.is_some() && !sends_changes {
        reader.assume(TABLE, "signals are not read, because an EventRouter creates the records");
        (options.table, options.from_table, options.file, options.topic) = (None, false, None, None);
    }
    options
}

/// Returns the brokers of the signal topic, without the protocols that may precede the addresses.
fn servers(reader: &mut Reader<'_>) -> Option<String> {
    let (key, servers) = SERVERS.into_iter().find_map(|key| Some((key, reader.filled(key)?.to_owned())))?;
    let protocol = reader.text("producer.security.protocol").map(str::to_owned);
    Some(bootstrap::without_protocols(reader, key, &servers, protocol.as_deref()))
}

/// Reads the channels of notifications about snapshots.
pub(in crate::config) fn notifications(reader: &mut Reader<'_>, sends_changes: bool) -> NotificationOptions {
    let topic = reader.filled(NOTIFICATION_TOPIC).map(str::to_owned);
    let Some(setting) = reader.settings.get(NOTIFICATION_CHANNELS) else {
        return NotificationOptions::default();
    };
    let mut options = NotificationOptions::default();
    if !sends_changes {
        reader.assume(
            NOTIFICATION_CHANNELS,
            "there are no notifications, because an EventRouter creates the records",
        );
        return options;
    }
    for channel in setting.value.split(',').map(str::trim).filter(|channel| !channel.is_empty()) {
        match channel {
            "log" => options.log = true,
            "sink" if topic.is_some() => options.topic.clone_from(&topic),
            "sink" => reader.missing(
                NOTIFICATION_TOPIC,
                "notification.enabled.channels has sink: the topic that notifications go to",
                &[(NOTIFICATION_TOPIC, "outboxd-notifications")],
            ),
            "jmx" => reader.assume(NOTIFICATION_CHANNELS, "jmx is ignored: there is no Java here"),
            "http" => options.http = true,
            _ => reader
                .invalid(setting, "it must be a list of sink, log and http; other channels are Java classes"),
        }
    }
    options
}

/// Reads the options for notifications over HTTP; `None` unless that channel is enabled.
pub(in crate::config) fn notification_posts(
    reader: &mut Reader<'_>,
    told: &NotificationOptions,
) -> Option<PostOptions> {
    let timeout = reader.millis("notification.http.timeout.ms", 1, Duration::from_secs(5));
    let retries = reader.integer("notification.http.retries", 0..=1_000, 2);
    if !told.http {
        return None;
    }
    let Some(setting) = reader.settings.get(NOTIFICATION_URL).filter(|url| !url.value.trim().is_empty())
    else {
        reader.missing(
            NOTIFICATION_URL,
            "notification.enabled.channels has http: where notifications are posted to",
            &[(NOTIFICATION_URL, "http://hooks:8080/snapshots")],
        );
        return None;
    };
    let posts = PostOptions::new(&setting.value, timeout, retries);
    if posts.is_none() {
        reader.invalid(setting, "it must be http://host:port/path or https://host:port/path");
    }
    posts
}

fn channels(reader: &mut Reader<'_>) -> Vec<&'static str> {
    let Some(setting) = reader.settings.get(CHANNELS) else { return vec!["source"] };
    let mut channels = Vec::new();
    for channel in setting.value.split(',').map(str::trim).filter(|channel| !channel.is_empty()) {
        match channel {
            "source" => channels.push("source"),
            "kafka" => channels.push("kafka"),
            "file" => channels.push("file"),
            "jmx" | "in-process" => {
                reader.assume(CHANNELS, format!("{channel} is ignored: there is no Java here"));
            }
            _ => reader.invalid(
                setting,
                "it must be a list of source, kafka and file; other channels are Java classes",
            ),
        }
    }
    channels
}

/// Checks the options of the consumer. Signals are always read with the settings of the producer, so the options for
/// login must be equal.
fn check_consumer(reader: &mut Reader<'_>) {
    let settings = reader.settings;
    for (key, setting) in settings.iter() {
        let Some(client) = key.strip_prefix(CONSUMER).filter(|_| !SERVERS.contains(&key)) else { continue };
        if !["security.", "sasl.", "ssl."].iter().any(|prefix| client.starts_with(prefix)) {
            let reason = "signals are read one after the other, with the settings of the producer";
            check::ignore(&mut reader.notices, reason, setting);
            continue;
        }
        let producer = format!("producer.{client}");
        let unsaid = if client == "security.protocol" { "PLAINTEXT" } else { "" };
        if reader.text(&producer).unwrap_or(unsaid) != setting.value {
            let reason = format!(
                "signals are read with the settings of the producer: set it to the value of {producer}, or remove it"
            );
            reader.invalid(setting, reason);
        }
    }
}

fn watermarks(reader: &mut Reader<'_>) -> Watermarks {
    let strategies =
        [("insert_insert", Watermarks::InsertInsert), ("insert_delete", Watermarks::InsertDelete)];
    reader.choice("incremental.snapshot.watermarking.strategy", &strategies, Watermarks::InsertInsert)
}
