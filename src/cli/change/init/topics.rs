//! Topics that `init` creates.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::spawn_blocking;

use super::args::InitArgs;
use super::error::InitError;
use crate::cli::prove::check::catalog::route_values;
use crate::cli::shell::notice::Notice;
use crate::cli::shell::progress::Progress;
use crate::kafka::{
    self, Admin, CreationFault, TopicCreation, TopicGroup, TopicPatterns, check_topic, make_topic,
};
use crate::outbox::EventRouter;
use crate::postgres::{Sql, TableFacts};
use crate::relay::RelayParts;

const PATIENCE: Duration = Duration::from_secs(10);
const ROUTE: &str = "route.by.field";

/// Number that stands for the brokers' default.
const BY_THE_BROKERS: i32 = -1;

/// Known topics: the only one there is, or those of the rows in the table.
#[derive(Debug, Default)]
pub(super) struct Topics {
    pub(super) there: Vec<String>,
    pub(super) missing: Vec<String>,
    /// Topic of all events, if there is only one.
    pub(super) only: Option<String>,
}

pub(super) async fn look(
    parts: &Arc<RelayParts>,
    sql: &Sql,
    table: &TableFacts,
) -> Result<Topics, InitError> {
    let router = parts.route.outbox();
    let columns = router.map(EventRouter::required_columns).unwrap_or_default();
    let column = columns.iter().find(|(option, _)| *option == ROUTE).map(|(_, column)| *column);
    let column = column.filter(|column| table.columns.iter().any(|known| known == column));
    let values = match column {
        Some(column) => route_values(sql, table, column).await?,
        None => Vec::new(),
    };
    look_for(parts, values).await
}

/// Finds the topics for these values of the route.
pub(super) async fn look_for(parts: &Arc<RelayParts>, values: Vec<String>) -> Result<Topics, InitError> {
    let Some(router) = parts.route.outbox() else { return Ok(Topics::default()) };
    let only = only(router);
    let wanted: BTreeSet<String> = match only.clone() {
        Some(topic) => BTreeSet::from([topic]),
        None => values.iter().filter_map(|value| router.topic(value).ok()).collect(),
    };
    Ok(Topics { only, ..with_existing(parts, wanted).await? })
}

/// Returns the topics with the information which of them exist.
pub(super) async fn with_existing(
    parts: &Arc<RelayParts>,
    wanted: BTreeSet<String>,
) -> Result<Topics, InitError> {
    // The request is also sent when no topic is known yet: it shows that the brokers can be reached.
    let admin = Admin::new(&parts.kafka)?;
    let _notice = Notice::of_kafka(&Progress::hidden(), &parts.kafka);
    let asking = spawn_blocking(move || admin.cluster(PATIENCE));
    let aborted = |_| kafka::Error::Fatal("the question was aborted".to_owned());
    let (_, known) = asking.await.map_err(aborted)??;
    let (there, missing) =
        wanted.into_iter().partition(|topic| known.iter().any(|known| known.name == *topic));
    Ok(Topics { there, missing, only: None })
}

/// Checks that the brokers would create the missing topics, before any object is created.
pub(super) async fn check(parts: &RelayParts, args: &InitArgs, missing: &[String]) -> Result<(), InitError> {
    let options = options(parts, args);
    for topic in missing {
        check_topic(&options, topic).await.map_err(refused)?;
    }
    Ok(())
}

/// Creates the missing topics.
pub(super) async fn make(parts: &RelayParts, args: &InitArgs, missing: &[String]) -> Result<(), InitError> {
    let options = options(parts, args);
    for topic in missing {
        match make_topic(&options, topic).await.map_err(refused)? {
            kafka::Made::Now => crate::cli::print_message(&format!("made topic {topic}")),
            kafka::Made::NotByUs => {
                crate::cli::print_message(&format!("topic {topic} will be auto-created by the brokers"));
            }
        }
    }
    Ok(())
}

/// Returns the error of a refused topic, with command-line options instead of keys.
fn refused(error: kafka::Error) -> InitError {
    match error {
        kafka::Error::TopicCreation {
            topic,
            reason,
            fault: CreationFault::Topic | CreationFault::Settings,
            ..
        } => InitError::Topic { topic, reason },
        error => error.into(),
    }
}

/// Returns the options of the command line, or else those of the configuration, if it has any.
fn options(parts: &RelayParts, args: &InitArgs) -> kafka::Options {
    let is_said = args.partitions.is_some() || args.replication_factor.is_some();
    if !is_said && parts.kafka.topic_creation.is_some() {
        return parts.kafka.clone();
    }
    let group = TopicGroup {
        name: "init".to_owned(),
        patterns: TopicPatterns::default(),
        partitions: args.partitions.unwrap_or(BY_THE_BROKERS),
        replication_factor: args.replication_factor.unwrap_or(BY_THE_BROKERS),
        settings: Vec::new(),
    };
    let creation = Some(Arc::new(TopicCreation::new(Vec::new(), group, None)));
    kafka::Options { topic_creation: creation, ..parts.kafka.clone() }
}

/// Returns the topic of all values of the route, if there is only one.
fn only(router: &EventRouter) -> Option<String> {
    let [one, other] = ["a", "B.2"].map(|value| router.topic(value).ok());
    one.filter(|topic| other.as_ref() == Some(topic))
}
