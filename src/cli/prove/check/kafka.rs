//! Queries to Kafka. The sibling modules judge their results.

use std::sync::Arc;
use std::time::Duration;

use super::codes;
use super::makers::{self, Makers};
use super::position::{Found, position_topic};
use super::report::Check;
use super::state_topic::{state_topic, transactional_id};
use super::topics::{self, Target};
use crate::credentials::Tokens;
use crate::kafka::{Admin, Broker, Error, Options, Settings, Topic};
use crate::relay::{self, RelayParts, StoredPosition, TransactionOptions, stored_position};

/// Time limit of the first broker's response, and the timeouts of later requests.
const REACH_MAX: Duration = Duration::from_secs(4);
const QUESTION_MAX: Duration = Duration::from_millis(1_500);
const POSITION_MAX: Duration = Duration::from_secs(3);

/// A cluster that responds.
#[derive(Debug)]
pub(super) struct Cluster {
    admin: Admin,
    id: String,
    brokers: Vec<Broker>,
    topics: Vec<Topic>,
}

/// Subjects of the checks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) options: &'a Options,
    pub(super) targets: &'a [Target],
    /// The transform that chooses the topics of tables' records, if there is one.
    pub(super) renaming: Option<&'a str>,
    pub(super) dead_letters: Option<&'a Target>,
    /// The options of transactions, with exactly-once.
    pub(super) transactions: Option<&'a TransactionOptions>,
    pub(super) slot: &'a str,
    /// The topic of the positions, and the result of reading it.
    pub(super) position: Option<&'a str>,
    pub(super) kept: Option<&'a Kept>,
}

/// The stored position of this relay, if there is one.
pub(super) type Kept = Result<Option<StoredPosition>, relay::Error>;

/// Waits until a broker responds, and requests its metadata. The producer is first: `run` would use it too,
/// and it reports the reason of a failed connection.
pub(super) async fn reach(parts: Arc<RelayParts>) -> Result<Cluster, Error> {
    let asking = tokio::task::spawn_blocking(move || {
        let patience = parts.kafka.connect_timeout.min(REACH_MAX);
        let id = parts.producer.await_broker(&parts.kafka, patience)?;
        let admin = Admin::new(&parts.kafka)?;
        let (brokers, topics) = admin.cluster(QUESTION_MAX)?;
        Ok(Cluster { admin, id, brokers, topics })
    });
    asking.await.unwrap_or_else(|_| Err(Error::Fatal("the check was aborted".to_owned())))
}

/// Waits in the same way, and then reads the position, if one is stored.
pub(super) async fn reach_with_position(parts: &Arc<RelayParts>) -> (Result<Cluster, Error>, Option<Kept>) {
    let reached = reach(Arc::clone(parts)).await;
    let kept = match (&reached, &parts.relay.position.topic) {
        (Ok(_), Some(_)) => Some(stored_position(Arc::clone(parts), POSITION_MAX).await),
        _ => None,
    };
    (reached, kept)
}

/// Checks the cluster and the topics of the events.
pub(super) async fn check(reached: Result<Cluster, Error>, asked: Asked<'_>) -> Vec<Check> {
    let Asked { options, targets, renaming, dead_letters, transactions, slot, position, kept } = asked;
    let cluster = match reached {
        Ok(cluster) => cluster,
        Err(error) => {
            let skipped = Check::skipped(codes::TARGETS, "nothing else of Kafka is checked");
            return vec![Check::error(codes::KAFKA, &error), skipped];
        }
    };
    let mut answers = format!("Kafka at {} answers: cluster {}", options.bootstrap_servers, cluster.id);
    if let Some(token) = options.tokens.as_ref().and_then(Tokens::description) {
        answers += &format!(", by {token}");
    }
    let mut checks = vec![Check::ok(codes::KAFKA, answers), brokers(cluster.brokers.len())];
    if targets.is_empty() {
        let depends_on =
            renaming.map_or_else(|| "the route".to_owned(), |alias| format!("transforms.{alias}"));
        let title = format!("topics are unknown before the first row: their names depend on {depends_on}");
        checks.push(Check::skipped(codes::TARGETS, title));
    }
    checks.extend(cluster.check_topics(options, targets, dead_letters).await);
    if let Some(transactions) = transactions {
        checks.extend(cluster.check_state_topic(&transactions.state_topic).await);
        checks.push(transactional_id(transactions, slot));
    }
    if let (Some(name), Some(kept)) = (position, kept) {
        checks.extend(cluster.check_position_topic(name, kept).await);
    }
    checks
}

fn brokers(count: usize) -> Check {
    match count {
        1 => Check::note(codes::BROKERS, "the cluster has 1 broker")
            .detail("while it is unavailable nothing is sent; PostgreSQL retains the events"),
        many => Check::ok(codes::BROKERS, format!("the cluster has {many} brokers")),
    }
}

impl Cluster {
    async fn check_topics(
        &self,
        options: &Options,
        targets: &[Target],
        dead_letters: Option<&Target>,
    ) -> Vec<Check> {
        let all: Vec<_> = targets.iter().chain(dead_letters).collect();
        let names: Vec<_> = all.iter().map(|target| target.topic.as_str()).collect();
        let there: Vec<_> = names.iter().copied().filter(|name| self.topic(name).is_some()).collect();
        let (broker, settings) =
            tokio::join!(self.broker_settings(there.len() < names.len()), self.settings(&there));
        let (mut about, mut makers) = (Vec::new(), Makers::default());
        let settings_of = |topic: &str| {
            let index = there.iter().position(|name| *name == topic)?;
            settings.get(index)?.as_ref()
        };
        for target in all {
            let Some(topic) = self.topic(&target.topic) else {
                let maker = makers.of(options, &target.topic).await;
                about.push((target, makers::missing(target, maker, self.brokers.len(), broker.as_ref())));
                continue;
            };
            let known = settings_of(&target.topic);
            let mut checks = topics::existing(target, topic, known);
            if known.is_none() {
                checks.push(topics::unseen_settings(&topic.name));
            }
            about.push((target, checks));
        }
        let mut checks = topics::together(about);
        let max = |target: &Target| settings_of(&target.topic)?.number("max.message.bytes");
        let others = targets.iter().filter_map(|target| Some((target.topic.as_str(), max(target)?)));
        if let Some(dead_letters) = dead_letters
            && let Some(letter_max) = max(dead_letters)
        {
            checks.push(topics::letter_size(dead_letters, letter_max, &others.collect::<Vec<_>>()));
        }
        checks
    }

    async fn check_state_topic(&self, name: &str) -> Vec<Check> {
        let topic = self.topic(name);
        let settings = self.settings(topic.map_or(&[], |_| std::slice::from_ref(&name))).await;
        state_topic(name, topic, settings.first().and_then(Option::as_ref))
    }

    async fn check_position_topic(&self, name: &str, kept: &Kept) -> Vec<Check> {
        let Some(topic) = self.topic(name) else {
            // A topic that outboxd may not see is not in the list.
            let may_be_made = self.admin.may_make(name, QUESTION_MAX).await;
            return position_topic(name, &Found::Nothing { may_be_made });
        };
        let settings = self.settings(&[name]).await;
        let settings = settings.first().and_then(Option::as_ref);
        position_topic(name, &Found::Topic { topic, settings, read: kept.as_ref().map(|_| ()) })
    }

    fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.iter().find(|topic| topic.name == name)
    }

    /// Returns the settings of a broker, which matter only for the creation of a topic.
    async fn broker_settings(&self, needed: bool) -> Option<Settings> {
        let broker = *self.brokers.first().filter(|_| needed)?;
        self.admin.broker_settings(broker, QUESTION_MAX).await.ok()
    }

    async fn settings(&self, topics: &[&str]) -> Vec<Option<Settings>> {
        if topics.is_empty() {
            return Vec::new();
        }
        let answers = self.admin.topic_settings(topics, QUESTION_MAX).await.unwrap_or_default();
        answers.into_iter().map(Result::ok).collect()
    }
}
