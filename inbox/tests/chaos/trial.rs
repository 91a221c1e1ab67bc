//! One run: a service, events, faults between them, and in the end the facts for the oracle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use fastrand::Rng;
use rdkafka::consumer::Consumer as _;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;
use rdkafka::{ClientConfig, TopicPartitionList};
use tokio_postgres::Row;

use crate::draw::{Draw, Operator};
use crate::habit::{Habit, *};
use crate::oracle::{Effect, Facts, Operations, Outages, Sent, judge};
use crate::planted::Planted;
use crate::process::Process;
use crate::service::AWAY;
use crate::support::kafka::Kafka;
use crate::support::wait::{DEADLINE, eventually, let_pass};
use crate::world::World;

const TABLES: &str = "
    CREATE TABLE effects (n bigserial PRIMARY KEY, id text, k text, number bigint, amount bigint);
    CREATE TABLE balances (k text PRIMARY KEY, v bigint);
    CREATE TABLE settings (name text, value text);
    INSERT INTO settings VALUES ('currency', 'EUR');
    CREATE TABLE hot (k integer PRIMARY KEY, v bigint);
    INSERT INTO hot VALUES (1, 0), (2, 0);
    CREATE TABLE outage (since timestamptz);
    CREATE TABLE allowed (id text);
    CREATE SEQUENCE ends;";
/// The table of that name that services had before they had the inbox.
const OLDER_TABLE: &str = "CREATE TABLE processed_messages (message_id uuid PRIMARY KEY, at timestamptz)";

/// Events between two steps.
const EVENTS: usize = 80;
pub(crate) const KEYS: usize = 12;
const PARTITIONS: i32 = 3;
/// Events at which a handler never returns or ends its process: each costs seconds.
const COSTLY_MAX: usize = 1;
/// By then all must have ended, after the last fault.
const SETTLED_WITHIN: Duration = Duration::from_secs(90);
/// The same where a mistake is planted.
const PLANTED_WITHIN: Duration = Duration::from_secs(10);
/// Progress between two steps is not waited for any longer: a fault may befall what is blocked.
const PROGRESS_WITHIN: Duration = Duration::from_secs(4);
/// Interval of the operator's checks.
const OPERATOR_EVERY: Duration = Duration::from_secs(4);

pub(crate) struct Trial<'w> {
    pub(crate) world: &'w mut World,
    pub(crate) draw: Draw,
    pub(crate) rng: Rng,
    pub(crate) consumers: Vec<Process>,
    pub(crate) sent: BTreeMap<String, (Sent, Habit)>,
    pub(crate) operations: Operations,
    /// Events that may be given up in the outages.
    pub(crate) given_up_max: usize,
    planted: Option<Planted>,
    name: String,
    schema: &'static str,
    numbers: BTreeMap<String, i64>,
    costly: BTreeMap<Habit, usize>,
}

pub(crate) struct Outcome {
    pub(crate) violations: BTreeSet<String>,
    pub(crate) took: Duration,
    pub(crate) figures: String,
}

impl<'w> Trial<'w> {
    /// Starts a run. `suffix` distinguishes runs of one seed.
    pub(crate) fn start(world: &'w mut World, draw: Draw, planted: Option<Planted>, suffix: &str) -> Self {
        let name = format!("s{}{}", draw.seed, suffix.to_lowercase());
        let schema = if draw.other_schema { "shop" } else { "public" };
        let rng = Rng::with_seed(draw.seed);
        let trial = Self {
            world,
            rng,
            planted,
            schema,
            name,
            draw,
            consumers: Vec::new(),
            sent: BTreeMap::new(),
            operations: Operations::default(),
            given_up_max: 0,
            numbers: BTreeMap::new(),
            costly: BTreeMap::new(),
        };
        let world = &*trial.world;
        world.execute(&world.url("postgres", "public"), &format!("CREATE DATABASE {}", trial.name)).unwrap();
        trial.execute("CREATE SCHEMA IF NOT EXISTS shop");
        trial.execute(TABLES);
        if trial.draw.older_table {
            trial.execute(OLDER_TABLE);
        }
        world.kafka.create_topic(&trial.topic(), PARTITIONS, &[]);
        world.kafka.create_topic(&trial.dead_letter_topic(), 1, &[]);
        trial
    }

    pub(crate) fn run(mut self) -> Outcome {
        let began = Instant::now();
        if let Some(planted) = self.planted {
            self.execute(outboxd_inbox::postgres::SCHEMA);
            planted.in_the_beginning(&self);
        }
        for _ in 0..self.draw.consumers {
            self.start_consumer();
        }
        for step in self.draw.steps.clone() {
            self.send(EVENTS);
            self.wait_for_progress();
            self.inflict(step);
            self.operate();
        }
        self.send(EVENTS);
        if let Some(planted) = self.planted {
            planted.in_the_middle(&self);
        }
        let stuck = self.settle();
        if let Some(planted) = self.planted {
            planted.in_the_end(&self);
        }
        let facts = self.facts();
        let mut violations = judge(&facts);
        violations.extend(stuck);
        if !violations.is_empty() && self.planted.is_none() {
            self.consumers.iter().for_each(|consumer| eprintln!("a consumer logged:\n{}", consumer.log()));
        }
        let figures = format!(
            "{} events, {} effects, {} dead letters, {} skipped, {} forgotten, {} sent again",
            facts.sent.len(),
            facts.effects.len(),
            facts.dead_letters.len(),
            facts.operations.skipped.len(),
            facts.operations.forgotten.len(),
            facts.operations.replayed.len()
        );
        for mut consumer in std::mem::take(&mut self.consumers) {
            if !consumer.has_ended() {
                consumer.stop();
            }
        }
        let drop = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        self.world.execute(&self.world.url("postgres", "public"), &drop).unwrap();
        Outcome { violations, took: began.elapsed(), figures }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn schema(&self) -> &'static str {
        self.schema
    }

    pub(crate) fn topic(&self) -> String {
        format!("{}.orders", self.name)
    }

    pub(crate) fn dead_letter_topic(&self) -> String {
        format!("{}.dlq", self.name)
    }

    pub(crate) fn kafka(&self) -> &Kafka {
        &self.world.kafka
    }

    pub(crate) fn url(&self) -> String {
        self.world.url(&self.name, self.schema)
    }

    pub(crate) fn execute(&self, sql: &str) {
        self.world.execute(&self.url(), sql).unwrap();
    }

    pub(crate) fn query(&self, sql: &str) -> Vec<Row> {
        self.world.query(&self.url(), sql).unwrap()
    }

    pub(crate) fn wait_until(&self, is_true: &str) {
        eventually(DEADLINE, is_true, || {
            self.world.query(&self.url(), is_true).is_ok_and(|rows| rows[0].get(0))
        });
    }

    pub(crate) fn start_consumer(&mut self) {
        let Draw { dedupe, batch, sqlx, .. } = self.draw;
        let list = |waits: &[u64]| waits.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        let own = [
            ("postgres", self.world.link_url(&self.name, self.schema)),
            ("kafka", self.world.bootstrap()),
            ("topic", self.topic()),
            ("consumer", self.name.clone()),
            ("dlq", self.dead_letter_topic()),
            ("dedupe", dedupe.to_owned()),
            ("batch", batch.to_string()),
            ("retry", list(&self.draw.retry)),
            ("park", list(&self.draw.park)),
        ];
        let mut arguments: Vec<String> = own
            .iter()
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("--{name}={value}"))
            .collect();
        let flags = [("--sqlx", sqlx), ("--key-waits", self.draw.operator == Operator::Releases)];
        arguments.extend(flags.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| (*flag).to_owned()));
        arguments.extend(self.planted.map(|planted| format!("--planted={planted:?}")));
        self.consumers.push(Process::start("service::service_process", arguments.iter().map(String::as_str)));
    }

    /// Starts those again that have ended by themselves.
    pub(crate) fn look_after(&mut self) {
        let before = self.consumers.len();
        self.consumers.retain_mut(|consumer| !consumer.has_ended());
        for _ in self.consumers.len()..before {
            self.start_consumer();
        }
    }

    /// Sends this many events, and some of the former ones once more.
    pub(crate) fn send(&mut self, count: usize) {
        let mut ids = Vec::new();
        for _ in 0..count {
            let (number, id) = (self.sent.len(), format!("e{}", self.sent.len()));
            let key = format!("k{}", number % KEYS);
            let (habit, amount) = (self.draw_habit(), self.rng.i64(1..9));
            let next = self.numbers.entry(key.clone()).or_default();
            let sent = Sent { key, number: *next, amount, need: habit.need() };
            *next += 1;
            self.sent.insert(id.clone(), (sent, habit));
            ids.push(id);
        }
        let former: Vec<&String> =
            self.sent.iter().filter(|(_, (_, habit))| *habit == Plain).map(|(id, _)| id).collect();
        let again: Vec<String> =
            (0..count / 8).map(|_| former[self.rng.usize(0..former.len())].clone()).collect();
        self.produce(ids.iter().chain(&again));
    }

    fn draw_habit(&mut self) -> Habit {
        let habit = Habit::draw(&mut self.rng, &self.draw.habits);
        if matches!(habit, Hangs | EndsProcess) {
            let count = self.costly.entry(habit).or_default();
            *count += 1;
            return if *count > COSTLY_MAX { Plain } else { habit };
        }
        habit
    }

    pub(crate) fn produce<'i>(&self, ids: impl Iterator<Item = &'i String>) {
        let texts: Vec<(&String, &Sent, String, String)> = ids
            .map(|id| {
                let (sent, habit) = &self.sent[id];
                let Sent { number, amount, .. } = sent;
                let value = format!(r#"{{"number":{number},"amount":{amount},"habit":"{}"}}"#, habit.name());
                // In the order in which they were sent first.
                let place: i64 = id.trim_start_matches('e').parse().unwrap();
                (id, sent, value, format!("7423456789012345678/{:016X}/00000000", 100 + place))
            })
            .collect();
        let records = texts.iter().map(|(id, sent, value, position)| {
            let headers = OwnedHeaders::new()
                .insert(Header { key: "id", value: Some(id.as_bytes()) })
                .insert(Header { key: "outboxd.position", value: Some(position.as_bytes()) });
            (sent.key.as_bytes(), value.as_bytes(), headers)
        });
        let topic = self.topic();
        let records: Vec<_> = records.collect();
        self.kafka().produce_all(
            records
                .into_iter()
                .map(|(key, value, headers)| BaseRecord::to(&topic).key(key).payload(value).headers(headers)),
        );
    }

    pub(crate) fn effects_count(&self) -> i64 {
        let rows = self.world.query(&self.url(), "SELECT count(*) FROM effects");
        rows.map_or(0, |rows| rows[0].get(0))
    }

    /// Waits until some of the events are applied.
    pub(crate) fn wait_for_progress(&mut self) {
        let (began, wanted) = (Instant::now(), self.effects_count() + i64::try_from(EVENTS / 4).unwrap());
        while self.effects_count() < wanted && began.elapsed() < PROGRESS_WITHIN {
            self.look_after();
            let_pass(Duration::from_millis(50));
        }
    }

    /// Waits until everything has ended: `Some` violation if it does not.
    pub(crate) fn settle(&mut self) -> Option<String> {
        let within = if self.planted.is_some() { PLANTED_WITHIN } else { SETTLED_WITHIN };
        let (began, mut looked) = (Instant::now(), Instant::now());
        loop {
            self.look_after();
            let parked: i64 = match self.world.query(&self.url(), "SELECT count(*) FROM inbox_parked") {
                Ok(rows) => rows[0].get(0),
                Err(_) => -1,
            };
            let open = self.kafka().record_count(&self.topic()) - self.committed();
            let lost: Vec<String> =
                judge(&self.facts()).into_iter().filter(|violation| violation.starts_with("lost")).collect();
            if parked == 0 && open == 0 && lost.is_empty() {
                return None;
            }
            if began.elapsed() > within {
                self.print_tables();
                return Some(format!(
                    "stuck: {parked} parked, {open} offsets not committed, {} lost",
                    lost.len()
                ));
            }
            if looked.elapsed() > OPERATOR_EVERY {
                looked = Instant::now();
                self.unblock_all();
            }
            let_pass(Duration::from_millis(300));
        }
    }

    /// Prints what may hold up the consumers.
    fn print_tables(&self) {
        for sql in [
            "SELECT partition_id, \"offset\", convert_from(key, 'UTF8'), attempts, error, not_before - now(), is_dead, number, begun FROM inbox_parked ORDER BY 1, 2",
            "SELECT id, partition, epoch, next_offset, begun_from, begun_until FROM inbox_partition",
            "SELECT pid, state, now() - xact_start, wait_event, left(query, 100), (SELECT string_agg(concat_ws(':', mode, classid, objid, granted), ' ') \
             FROM pg_locks AS held WHERE held.pid = session.pid AND locktype = 'advisory') FROM pg_stat_activity AS session WHERE datname = current_database()",
        ] {
            let whole = format!("SELECT row_to_json(seen)::text FROM ({sql}) AS seen");
            let rows = self.world.query(&self.url(), &whole).unwrap_or_default();
            rows.iter().for_each(|row| eprintln!("{}", row.get::<_, String>(0)));
        }
    }

    fn committed(&self) -> i64 {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.kafka().bootstrap()).set("group.id", &self.name);
        let consumer: rdkafka::consumer::BaseConsumer = config.create().unwrap();
        let mut list = TopicPartitionList::new();
        for number in 0..PARTITIONS {
            list.add_partition(&self.topic(), number);
        }
        let committed = consumer.committed_offsets(list, DEADLINE).unwrap();
        committed.elements().iter().map(|element| element.offset().to_raw().unwrap_or(0).max(0)).sum()
    }

    pub(crate) fn dead_ids(&self) -> Vec<String> {
        let dead = self.kafka().records(&self.dead_letter_topic());
        dead.iter().map(|record| record.header("id").to_owned()).collect()
    }

    pub(crate) fn facts(&self) -> Facts {
        let effect =
            |row: &Row| Effect { id: row.get(0), key: row.get(1), number: row.get(2), amount: row.get(3) };
        // In one statement: they are written in the same transactions.
        let rows = self.query(
            "SELECT id, k, number, amount, n FROM effects UNION ALL SELECT NULL, k, v, NULL, NULL FROM balances ORDER BY n NULLS LAST",
        );
        let (effects, balances): (Vec<&Row>, Vec<&Row>) =
            rows.iter().partition(|row| row.get::<_, Option<String>>(0).is_some());
        let dead = self.kafka().records(&self.dead_letter_topic());
        let in_outage = dead.iter().filter(|record| record.header("outboxd.errors.message") == AWAY);
        let given_up = in_outage.map(|record| record.header("id").to_owned()).collect();
        Facts {
            sent: self.sent.iter().map(|(id, (sent, _))| (id.clone(), sent.clone())).collect(),
            effects: effects.into_iter().map(effect).collect(),
            dead_letters: dead.iter().map(|record| record.header("id").to_owned()).collect(),
            balances: balances.into_iter().map(|row| (row.get(1), row.get(2))).collect(),
            operations: self.operations.clone(),
            outages: Outages { given_up, given_up_max: self.given_up_max },
        }
    }
}
