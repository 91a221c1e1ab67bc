use std::env;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use outboxd::internals::throwaway::unused_port;

use super::cache::{cached, run};
use super::programs::spawn;
use super::wait::{DEADLINE, eventually};
use super::watcher::{Watcher, signal};

/// The newest whose tools are on Maven Central too.
const TOOLS: &str = "4.3.1";
const POM: &str = include_str!("kafka-pom.xml");
const LOG4J2: &str = include_str!("kafka-log4j2.xml");
/// The classes that a broker has loaded when it answers.
const ARCHIVE: &str = "classes.jsa";
/// Any UUID in Kafka's base64 form; each broker stands alone, so they may share it.
const CLUSTER_ID: &str = "b3V0Ym94ZC1vdXRib3gxMA";

/// Returns the version of Kafka that is tested with: 4.3.1 by default, another with `OUTBOXD_TEST_KAFKA`.
pub(super) fn version() -> String {
    env::var("OUTBOXD_TEST_KAFKA").unwrap_or_else(|_| TOOLS.to_owned())
}

/// Returns a folder with the jars of Kafka and its tools in `libs`, its logging configuration, and `formatted`, an
/// empty broker's data.
///
/// The first process that asks fetches it from Maven Central for all processes.
pub(super) fn kafka_home() -> PathBuf {
    home_of(&version())
}

/// Returns the folder whose tools can be run, whatever Kafka is tested with.
pub(super) fn tools_home() -> PathBuf {
    home_of(TOOLS)
}

fn home_of(version: &str) -> PathBuf {
    let home = cached(&format!("kafka-tools-{version}"), |folder| {
        fetch(folder, version);
        format_storage(folder);
    });
    // When the folder has its name: the classes in the archive are known by the paths of their jars.
    cached(&archive_of(&home), |folder| archive_classes(&home, folder));
    home
}

/// Returns the command of the Java virtual machine with Kafka's jars. It is small, and with the archive of their
/// classes it starts twice as fast.
pub(super) fn java(home: &Path) -> Command {
    let mut command = bare_java();
    command.arg(format!(
        "-XX:SharedArchiveFile={}",
        home.with_file_name(archive_of(home)).join(ARCHIVE).display()
    ));
    with_jars(command, home)
}

fn bare_java() -> Command {
    let mut command = Command::new("java");
    command.args(["-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    command
}

fn with_jars(mut command: Command, home: &Path) -> Command {
    command.arg(format!("-Dlog4j2.configurationFile={}", home.join("log4j2.xml").display()));
    command.arg("-cp").arg(home.join("libs/*"));
    command
}

/// Returns the `server.properties` of a single broker that is its own controller. The broker retains records however
/// old their timestamps are, which are those of rows.
pub(super) fn properties(port: u16, advertised_port: u16, controller_port: u16, log_folder: &Path) -> String {
    format!(
        "process.roles=broker,controller\n\
         node.id=1\n\
         controller.quorum.voters=1@127.0.0.1:{controller_port}\n\
         controller.listener.names=CONTROLLER\n\
         listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}\n\
         advertised.listeners=PLAINTEXT://127.0.0.1:{advertised_port}\n\
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
         log.cleaner.dedupe.buffer.size=4194304\n\
         log.retention.ms=-1\n",
        log_folder.display()
    )
}

fn fetch(home: &Path, version: &str) {
    fs::write(home.join("pom.xml"), POM.replace("KAFKA_VERSION", version).replace("TOOLS_VERSION", TOOLS))
        .unwrap();
    fs::write(home.join("log4j2.xml"), LOG4J2).unwrap();
    let mut maven = Command::new("mvn");
    maven.args(["--quiet", "--batch-mode", "dependency:copy-dependencies", "-DincludeScope=runtime"]);
    maven.arg("-DoutputDirectory=libs").current_dir(home);
    run("mvn", &mut maven);
}

/// Formats the storage once, since formatting costs the start of a virtual machine. The result contains no path and no
/// port.
fn format_storage(home: &Path) {
    let file = home.join("format.properties");
    fs::write(&file, properties(9092, 9092, 9093, &home.join("formatted"))).unwrap();
    let mut format = with_jars(bare_java(), home);
    format.args(["kafka.tools.StorageTool", "format", "--cluster-id", CLUSTER_ID, "--config"]).arg(&file);
    run("kafka.tools.StorageTool", &mut format);
}

/// Returns the name of the folder beside this one that has the archive of its classes.
fn archive_of(home: &Path) -> String {
    format!("{}-classes", home.file_name().unwrap().display())
}

/// Starts a broker, and lets it write down its classes when it ends. A virtual machine that cannot do this goes without.
fn archive_classes(home: &Path, folder: &Path) {
    let [port, controller] = [(); 2].map(|()| unused_port().unwrap());
    let mut watcher = Watcher::new("outboxd-kafka-classes-");
    let data = watcher.folder().join("data");
    copy_folder(&home.join("formatted"), &data);
    let file = watcher.folder().join("server.properties");
    fs::write(&file, properties(port, port, controller, &data)).unwrap();
    let mut command = bare_java();
    command.arg(format!("-XX:ArchiveClassesAtExit={}", folder.join(ARCHIVE).display()));
    let mut command = with_jars(command, home);
    command.arg("kafka.Kafka").arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut broker = spawn(&mut command);
    watcher.watch(&broker);
    eventually(DEADLINE, "Kafka listens", || {
        broker.try_wait().unwrap().is_some() || TcpStream::connect(("127.0.0.1", port)).is_ok()
    });
    signal(&mut broker, "TERM");
    eventually(DEADLINE, "Kafka has stopped", || broker.try_wait().unwrap().is_some());
    watcher.release();
}

pub(super) fn copy_folder(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (from, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if from.is_dir() {
            copy_folder(&from, &to);
        } else {
            fs::copy(from, to).unwrap();
        }
    }
}
