use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: &str = "4.3.1";
const POM: &str = include_str!("kafka-pom.xml");
const LOG4J2: &str = include_str!("kafka-log4j2.xml");
/// Any UUID in Kafka's base64 form; each broker stands alone, so they may share it.
const CLUSTER_ID: &str = "b3V0Ym94ZC1vdXRib3gxMA";

/// A folder with Kafka's jars in `libs`, its logging configuration, and `formatted`, an empty broker's data.
///
/// Fetched from Maven Central by the first process that asks, and kept for all.
pub(super) fn kafka_home() -> PathBuf {
    let cache = cache_folder();
    let home = cache.join(format!("kafka-{VERSION}"));
    if home.exists() {
        return home;
    }
    fs::create_dir_all(&cache).unwrap();
    let lock = File::create(cache.join("kafka.lock")).unwrap();
    lock.lock().unwrap();
    if !home.exists() {
        let partial = home.with_extension("partial");
        if partial.exists() {
            fs::remove_dir_all(&partial).unwrap();
        }
        fs::create_dir_all(&partial).unwrap();
        fetch(&partial);
        format_storage(&partial);
        fs::rename(&partial, &home).unwrap();
    }
    home
}

/// The Java virtual machine with Kafka's jars: quick to start, small.
pub(super) fn java(home: &Path) -> Command {
    let mut command = Command::new("java");
    command.args(["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    command.arg(format!("-Dlog4j2.configurationFile={}", home.join("log4j2.xml").display()));
    command.arg("-cp").arg(home.join("libs/*"));
    command
}

/// `server.properties` of a single broker that is its own controller.
pub(super) fn properties(port: u16, controller_port: u16, log_folder: &Path) -> String {
    format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller_port}\n\
         controller.listener.names=CONTROLLER\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
         log.dirs={}\n\
         num.partitions=3\n\
         offsets.topic.num.partitions=1\n\
         offsets.topic.replication.factor=1\n\
         transaction.state.log.num.partitions=1\n\
         transaction.state.log.replication.factor=1\n\
         transaction.state.log.min.isr=1\n\
         share.coordinator.state.topic.num.partitions=1\n\
         share.coordinator.state.topic.replication.factor=1\n\
         share.coordinator.state.topic.min.isr=1\n\
         group.initial.rebalance.delay.ms=0\n\
         log.cleaner.dedupe.buffer.size=4194304\n",
        log_folder.display()
    )
}

fn fetch(home: &Path) {
    fs::write(home.join("pom.xml"), POM.replace("KAFKA_VERSION", VERSION)).unwrap();
    fs::write(home.join("log4j2.xml"), LOG4J2).unwrap();
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DincludeScope=runtime"]);
    maven.arg("-DoutputDirectory=libs").current_dir(home);
    run("mvn", &mut maven);
}

/// Formatting costs the start of a virtual machine, so it is done once: the result holds no path and no port.
fn format_storage(home: &Path) {
    let file = home.join("format.properties");
    fs::write(&file, properties(9092, 9093, &home.join("formatted"))).unwrap();
    let mut format = java(home);
    format.args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config"]).arg(&file);
    run("kafka.tools.StorageTool", &mut format);
}

fn run(what: &str, command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("cannot run {what}: {error}"));
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{what} failed\n{stdout}\n{stderr}");
}

fn cache_folder() -> PathBuf {
    let xdg = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    xdg.unwrap_or_else(|| env::home_dir().unwrap().join(".cache")).join("outboxd")
}
