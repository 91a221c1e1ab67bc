#[path = "kafka_topics.rs"]
mod topics;
#[path = "kafka_transactions.rs"]
mod transactions;

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use outboxd::internals::throwaway::unused_port;
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use rdkafka::{Offset, TopicPartitionList};

use super::kafka_home::{copy_folder, java, kafka_home, properties, version};
use super::programs::spawn;
use super::record::Record;
use super::wait::{DEADLINE, eventually, eventually_some};
use super::watcher::{self, Watcher, signal};

static KAFKA: LazyLock<Kafka> = LazyLock::new(Kafka::start);

/// Maximum duration of one request to the broker before it is repeated.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);
/// Time after which committed transactions have their markers, if no other transaction is committed meanwhile.
pub(crate) const MARKERS_WRITTEN: Duration = Duration::from_secs(5);
/// Far less than the time after which brokers abort a transaction that is left open.
pub(crate) const DECIDED_WITHIN: Duration = Duration::from_secs(20);

/// Returns the broker that the tests of this process share. Its topics are created on first use with three partitions.
pub(crate) fn kafka() -> &'static Kafka {
    &KAFKA
}

/// An Apache Kafka with one broker, gone with its data when this value is dropped or the test process ends.
#[derive(Debug)]
pub(crate) struct Kafka {
    /// `None` while it is stopped.
    process: Option<Child>,
    watcher: Watcher,
    port: u16,
    /// More options for the virtual machine; the last of a kind wins.
    jvm: &'static [&'static str],
}

impl Kafka {
    /// Returns the version of Kafka that is tested with.
    #[allow(dead_code, reason = "only benchmarks tell it")]
    pub(crate) fn version() -> String {
        version()
    }

    /// Starts a broker of the test's own, which the test can stop and kill.
    pub(crate) fn start() -> Self {
        let port = unused_port().unwrap();
        Self::start_at(port, port)
    }

    /// Starts a broker with more options for its virtual machine.
    pub(crate) fn start_with(jvm: &'static [&'static str]) -> Self {
        let port = unused_port().unwrap();
        Self::launch(port, port, jvm, |_, _| String::new())
    }

    /// Starts a broker that listens at one port of this machine and advertises another to its clients.
    pub(crate) fn start_at(port: u16, advertised_port: u16) -> Self {
        Self::launch(port, advertised_port, &[], |_, _| String::new())
    }

    /// Starts a broker with a second listener for clients that connect through a proxy at `proxy_port`; other clients
    /// use the first listener. After a kill, the controller accepts it as a new broker when the old one's session is
    /// over: 3 s.
    pub(crate) fn start_behind(door_port: u16, proxy_port: u16) -> Self {
        let port = unused_port().unwrap();
        Self::launch(port, port, &[], |_, controller| {
            let listeners = format!("PLAINTEXT://127.0.0.1:{port},DOOR://127.0.0.1:{door_port}");
            format!(
                "listeners={listeners},CONTROLLER://127.0.0.1:{controller}\n\
                 advertised.listeners=PLAINTEXT://127.0.0.1:{port},DOOR://127.0.0.1:{proxy_port}\n\
                 listener.security.protocol.map=PLAINTEXT:PLAINTEXT,DOOR:PLAINTEXT,CONTROLLER:PLAINTEXT\n\
                 inter.broker.listener.name=PLAINTEXT\n\
                 broker.heartbeat.interval.ms=500\n\
                 broker.session.timeout.ms=3000\n\
                 group.min.session.timeout.ms=1000\n"
            )
        })
    }

    /// Starts a broker with more lines of `server.properties`; the last line of a name wins. The lines are made from
    /// its folder and its controller's port.
    pub(super) fn start_configured(
        port: u16,
        advertised_port: u16,
        more: impl FnOnce(&Path, u16) -> String,
    ) -> Self {
        Self::launch(port, advertised_port, &[], more)
    }

    pub(super) fn launch(
        port: u16,
        advertised_port: u16,
        jvm: &'static [&'static str],
        more: impl FnOnce(&Path, u16) -> String,
    ) -> Self {
        let watcher = Watcher::new("outboxd-kafka-");
        let controller_port = unused_port().unwrap();
        let home = kafka_home();
        let data = watcher.folder().join("data");
        copy_folder(&home.join("formatted"), &data);
        let more = more(watcher.folder(), controller_port);
        let properties = properties(port, advertised_port, controller_port, &data) + &more;
        fs::write(watcher.folder().join("server.properties"), properties).unwrap();
        let mut kafka = Self { process: None, watcher, port, jvm };
        kafka.start_again();
        kafka
    }

    /// Returns the value of `bootstrap.servers`.
    pub(crate) fn bootstrap(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Returns the folder with all files of this broker.
    pub(crate) fn folder(&self) -> &Path {
        self.watcher.folder()
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub(crate) fn kill(&mut self) {
        self.process().kill().unwrap();
        self.reap();
    }

    /// Sends SIGTERM and waits until the process has ended.
    pub(crate) fn stop(&mut self) {
        signal(self.process(), "TERM");
        eventually(DEADLINE, "Kafka has stopped", || self.process().try_wait().unwrap().is_some());
        self.reap();
    }

    /// Starts it after [`Self::stop`] or [`Self::kill`], on the same port with the same data.
    pub(crate) fn start_again(&mut self) {
        assert!(self.process.is_none(), "Kafka is running");
        let folder = self.watcher.folder();
        let log = File::options().create(true).append(true).open(folder.join("kafka.log")).unwrap();
        let mut command = java(&kafka_home());
        command.args(self.jvm).arg("kafka.Kafka").arg(folder.join("server.properties")).current_dir(folder);
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let process = spawn(&mut command);
        self.watcher.watch(&process);
        self.process = Some(process);
        self.wait_until_ready();
    }

    /// Sends SIGSTOP: connections stay open, requests are not answered.
    pub(crate) fn pause(&mut self) {
        watcher::pause(self.process());
    }

    /// Sends SIGCONT.
    pub(crate) fn resume(&mut self) {
        signal(self.process(), "CONT");
    }

    /// Returns the broker's log: warnings and above.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.watcher.folder().join("kafka.log")).unwrap()
    }

    /// Returns the committed records of every topic that is not Kafka's own.
    pub(crate) fn all_records(&self) -> Vec<Record> {
        self.records_where(None, |name| !name.starts_with("__"))
    }

    /// Returns the number of offsets that the topic has assigned; cheaper than reading its records.
    pub(crate) fn record_count(&self, topic: &str) -> i64 {
        record_count(&self.consumer(), topic)
    }

    /// Waits until the topic has given out this many offsets.
    #[track_caller]
    pub(crate) fn wait_for_count(&self, topic: &str, count: i64) {
        let consumer = self.consumer();
        eventually(DEADLINE, &format!("{count} records in topic {topic}"), || {
            record_count(&consumer, topic) >= count
        });
    }

    /// Produces one record, into the partition that the Java client would choose, and waits for its acknowledgement.
    pub(crate) fn produce(&self, record: BaseRecord<'_, [u8], [u8]>) {
        self.produce_all([record]);
    }

    /// Produces several records in their order.
    pub(crate) fn produce_all<'r>(&self, records: impl IntoIterator<Item = BaseRecord<'r, [u8], [u8]>>) {
        let mut config = self.client();
        config.set("partitioner", "murmur2_random").set("max.in.flight", "1");
        let producer: BaseProducer = config.create().unwrap();
        for record in records {
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(DEADLINE).unwrap();
    }

    /// Waits until the topic has `count` committed records or more; returns all, by partition and offset.
    #[track_caller]
    pub(crate) fn read(&self, topic: &str, count: usize) -> Vec<Record> {
        self.read_within(DEADLINE, topic, count)
    }

    /// Waits for records like `read`, with a deadline of its own.
    #[track_caller]
    pub(crate) fn read_within(&self, within: Duration, topic: &str, count: usize) -> Vec<Record> {
        let consumer = self.consumer();
        eventually_some(within, &format!("{count} records in topic {topic}"), || {
            // There are no more records than offsets, which cost far less to ask for.
            if i64::try_from(count).unwrap() > record_count(&consumer, topic) {
                return None;
            }
            let records = self.records(topic);
            (records.len() >= count).then_some(records)
        })
    }

    /// Returns the current committed records of the topic, by partition and offset; none if the topic does not exist.
    pub(crate) fn records(&self, topic: &str) -> Vec<Record> {
        self.records_where(Some(topic), |name| name == topic)
    }

    /// Returns the committed records of every topic with this prefix, by topic, partition and offset.
    pub(crate) fn records_of_prefix(&self, prefix: &str) -> Vec<Record> {
        self.records_where(None, |name| name.starts_with(prefix))
    }

    /// Returns the committed records of all topics, or of one: the shared broker has thousands of topics.
    fn records_where(&self, one: Option<&str>, wanted: impl Fn(&str) -> bool) -> Vec<Record> {
        let consumer = self.consumer();
        let metadata = consumer.fetch_metadata(one, DEADLINE).unwrap();
        let mut assignment = TopicPartitionList::new();
        for topic in metadata.topics().iter().filter(|topic| wanted(topic.name())) {
            for partition in topic.partitions() {
                assignment.add_partition_offset(topic.name(), partition.id(), Offset::Beginning).unwrap();
            }
        }
        consumer.assign(&assignment).unwrap();
        read_to_end(&consumer, assignment.count())
    }

    /// Returns the end of each of these topics' partitions; `None` if the broker does not answer in time.
    pub(crate) fn try_ends(
        consumer: &BaseConsumer,
        places: &[(String, i32)],
        within: Duration,
    ) -> Option<Vec<i64>> {
        let ends =
            places.iter().map(|(topic, partition)| consumer.fetch_watermarks(topic, *partition, within));
        ends.map(|watermarks| watermarks.ok().map(|(_, high)| high)).collect()
    }

    /// Returns a consumer without assignments.
    pub(crate) fn consumer(&self) -> BaseConsumer {
        self.consumer_of(&mut self.client())
    }

    fn consumer_of(&self, config: &mut ClientConfig) -> BaseConsumer {
        // The end of a partition comes as an event, since the offsets of aborted records are never read.
        config
            .set("group.id", "tests")
            .set("enable.partition.eof", "true")
            .set("enable.auto.commit", "false");
        config.set("fetch.wait.max.ms", "10").create().unwrap()
    }

    fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", self.bootstrap()).set("reconnect.backoff.max.ms", "500");
        config
    }

    /// Waits until the broker answers. Each attempt has a client of its own: a client that has received the advertised
    /// address connects to that address from then on, and in some tests no process listens there.
    pub(crate) fn wait_until_ready(&mut self) {
        let began = Instant::now();
        eventually_some(DEADLINE + REQUEST_TIMEOUT, "Kafka answers", || {
            let left = self.process().try_wait().unwrap();
            assert!(left.is_none(), "Kafka has left, {left:?}: {}", self.log());
            assert!(began.elapsed() < DEADLINE, "Kafka does not answer: {}", self.log());
            TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).ok()?;
            let metadata = self.consumer().fetch_metadata(None, REQUEST_TIMEOUT).ok()?;
            (!metadata.brokers().is_empty()).then_some(())
        });
    }

    fn process(&mut self) -> &mut Child {
        self.process.as_mut().expect("Kafka is stopped")
    }

    fn reap(&mut self) {
        if let Some(mut process) = self.process.take() {
            process.wait().unwrap();
            self.watcher.release();
        }
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            process.kill().unwrap();
            self.reap();
        }
    }
}

/// Returns the sum of the ends of the partitions.
fn record_count(consumer: &BaseConsumer, topic: &str) -> i64 {
    let metadata = consumer.fetch_metadata(Some(topic), DEADLINE).unwrap();
    let partitions =
        metadata.topics().iter().flat_map(|topic| topic.partitions().iter().map(|p| (topic.name(), p.id())));
    // A topic just made has partitions without a leader.
    let ends =
        partitions.map(|(topic, partition)| consumer.fetch_watermarks(topic, partition, REQUEST_TIMEOUT));
    ends.filter_map(Result::ok).map(|(_, high)| high).sum()
}

fn read_to_end(consumer: &BaseConsumer, partition_count: usize) -> Vec<Record> {
    let mut records = Vec::new();
    let mut ended_count = 0;
    while ended_count < partition_count {
        match consumer.poll(DEADLINE) {
            Some(Ok(message)) => records.push(Record::from(&message)),
            Some(Err(KafkaError::PartitionEOF(_))) => ended_count += 1,
            // On a busy machine a connection may break; the client connects again.
            Some(Err(KafkaError::MessageConsumption(
                RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::BrokerTransportFailure,
            ))) => {}
            Some(Err(error)) => panic!("cannot read: {error}"),
            None => panic!("{} partitions have not come to their end", partition_count - ended_count),
        }
    }
    records.sort_by(|a, b| a.place().cmp(&b.place()));
    records
}
