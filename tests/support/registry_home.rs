use std::fs;
use std::path::PathBuf;
use std::process::Command;

use super::cache::{cached, run};

/// The last Apicurio Registry that runs on Java 17.
const VERSION: &str = "2.6.13.Final";

/// Returns a folder with Apicurio Registry's jars. The first process that asks fetches the 142 MB from Maven Central
/// for all processes.
pub(super) fn registry_home() -> PathBuf {
    cached(&format!("apicurio-{VERSION}"), |folder| {
        let mut maven = Command::new("mvn");
        maven.args(["--quiet", "--batch-mode", "dependency:copy", "-DoutputDirectory=."]);
        maven.arg(format!("-Dartifact=io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"));
        run("mvn", maven.current_dir(folder));
        let archive = folder.join(format!("apicurio-registry-app-{VERSION}-all.tar.gz"));
        run("tar", Command::new("tar").arg("-xzf").arg(&archive).current_dir(folder));
        fs::remove_file(archive).unwrap();
    })
}

/// Returns the command that runs the registry on this port of the loopback interface, with its schemas in memory.
pub(super) fn apicurio(port: u16) -> Command {
    let mut command = Command::new("java");
    command.args([
        "-Xmx256m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-Dquarkus.http.host=127.0.0.1",
    ]);
    command.arg(format!("-Dquarkus.http.port={port}"));
    command.arg("-jar").arg(registry_home().join(format!("apicurio-registry-app-{VERSION}-runner.jar")));
    command
}
