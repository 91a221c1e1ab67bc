//! Files of `src/config/cases/files/KIND`, as they are read: `FILE.expected`, and `FILE#NAME.expected` for one connector.
//!
//! `UPDATE_GOLDEN=1` rewrites the expectations.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::config::error::Problem;
use crate::config::source::file::read;
use crate::config::source::settings::Origin;
use crate::config::source::snippet::cloud::{Translated, translate};
use crate::config::{Config, Sources};
use crate::error::Diagnose;

#[test]
fn each_file_is_read_as_expected() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/cases/files");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    let folders = fs::read_dir(folder).unwrap().map(|kind| kind.unwrap().path());
    let entries = folders.flat_map(|kind| fs::read_dir(kind).unwrap());
    let entries = entries.map(|entry| entry.unwrap().path().display().to_string());
    let mut cases: Vec<String> =
        entries.map(|path| path.strip_suffix(".expected").map_or(path.clone(), str::to_owned)).collect();
    cases.sort();
    cases.dedup();
    let mut wrong = Vec::new();
    for case in cases {
        let kind = Path::new(&case).parent().unwrap();
        let found = shown(Path::new(&case)).replace(&format!("{}/", kind.display()), "");
        let expectation = PathBuf::from(format!("{case}.expected"));
        if update {
            fs::write(&expectation, &found).unwrap();
        }
        let expected = fs::read_to_string(&expectation).unwrap_or_default();
        if found != expected {
            wrong.push(format!("{case}: expected\n{expected}found\n{found}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_file_that_cannot_be_read_is_reported() {
    let files = ["none.properties", "files/yaml/twice.yaml", "files/json/several.json"].map(case).to_vec();
    let error = Config::load(&Sources { files, ..Sources::default() }).unwrap_err();
    let told: Vec<_> = error.problems().map(ToString::to_string).collect();
    for (told, expected) in
        told.iter().zip(["cannot be read", "cannot be read as YAML", "has 2 connectors: a, b"])
    {
        assert!(told.contains(expected), "{told}");
    }
    assert_eq!(told.len(), 3);
}

#[test]
fn files_of_other_tools_run_with_the_settings_that_they_lack() {
    let lacking = ["bootstrap.servers=k:9092", "topic.prefix=srv", "database.user=u", "database.dbname=d"];
    for file in [
        "files/operators/strimzi.yaml",
        "files/operators/operator.yaml",
        "files/kubernetes/configmap.yaml",
        "files/managed/create.sql",
    ] {
        let environment = vec![("POSTGRES_USER".to_owned(), "u".to_owned())];
        let mut overrides = lacking.map(str::to_owned).to_vec();
        overrides.push("database.hostname=db".to_owned());
        let config = Config::load(&Sources { files: vec![case(file)], environment, overrides });
        assert!(config.is_ok(), "{file}: {}", config.unwrap_err());
    }
    let environment = vec![("SECRET".to_owned(), "hunter2".to_owned())];
    let overrides = lacking.map(str::to_owned).to_vec();
    let cloud = Sources { files: vec![case("files/managed/cloud.json")], environment, overrides };
    let config = Config::load(&cloud).unwrap();
    assert_eq!(config.option("value.converter.schemas.enable").as_deref(), Some("false"));
    assert!(config.option("producer.sasl.jaas.config").unwrap().contains("password=\"hunter2\""));
    assert!(!config.settings().to_string().contains("hunter2"));
}

/// Secrets that are not mounted are named, and other settings replace them.
#[test]
fn secrets_of_strimzi_are_read_from_where_they_are_mounted() {
    let load = |file: &str, more: &[&str]| {
        let lacking = ["topic.prefix=srv", "database.user=u", "database.dbname=d"];
        let overrides = lacking.iter().chain(more).map(|line| (*line).to_owned()).collect();
        Config::load(&Sources { files: vec![case(file)], environment: vec![], overrides })
    };
    let error = load("files/operators/strimzi-scram.yaml", &[]).unwrap_err();
    let (told, fix) = (error.to_string(), error.fix().unwrap());
    for secret in ["shop-cluster-ca-cert", "shop-user"] {
        let is_fixed = fix.contains(&format!("mount the secret at /run/secrets/{secret}"));
        assert!(told.contains("strimzi-scram.yaml:") && is_fixed, "{told} {fix}");
    }
    let jaas = "producer.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required \
                username=\"u\" password=\"p\";";
    let config =
        load("files/operators/strimzi-scram.yaml", &["producer.ssl.truststore.certificates=pem", jaas])
            .unwrap();
    assert_eq!(config.option("producer.security.protocol").as_deref(), Some("SASL_SSL"));
    let token = load("files/operators/strimzi-token.yaml", &[]);
    assert!(token.is_ok(), "{}", token.unwrap_err());
}

#[test]
fn a_fix_that_a_refused_managed_connector_prints_is_accepted() {
    let of = |lines: &[&str]| {
        let lacking =
            ["bootstrap.servers=k:9092", "topic.prefix=srv", "database.user=u", "database.dbname=d"];
        let overrides = lacking.iter().map(|line| (*line).to_owned()).collect();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("managed.properties");
        fs::write(&file, lines.join("\n")).unwrap();
        Config::load(&Sources { files: vec![file], environment: vec![], overrides })
    };
    let class = "connector.class=PostgresCdcSource\ndatabase.hostname=db";
    let refused = of(&[class, "kafka.auth.mode=SERVICE_ACCOUNT", "kafka.api.key=k", "csfle.enabled=true"]);
    let fixes = refused.unwrap_err().fix().unwrap();
    for fix in
        ["kafka.auth.mode=KAFKA_API_KEY", "kafka.api.secret", "after.state.only=false", "csfle.enabled=false"]
    {
        assert!(fixes.contains(fix), "{fixes}");
    }
    let login = "kafka.auth.mode=KAFKA_API_KEY\nkafka.api.key=k\nkafka.api.secret=s";
    assert!(of(&[class, login, "after.state.only=false", "csfle.enabled=false"]).is_ok());
    let unwrap = "transforms=unwrap\ntransforms.unwrap.type=io.debezium.transforms.ExtractNewRecordState";
    assert!(fixes.contains(unwrap), "{fixes}");
    assert!(of(&[class, login, "after.state.only=false", unwrap]).is_ok());
}

#[test]
fn a_key_that_cannot_be_read_is_not_missing_as_well() {
    let overrides = ["bootstrap.servers=k:9092", "topic.prefix=srv", "database.dbname=d"];
    let overrides = overrides.map(str::to_owned).to_vec();
    let sources =
        Sources { files: vec![case("files/operators/operator.yaml")], environment: vec![], overrides };
    let told = Config::load(&sources).unwrap_err().to_string();
    assert!(told.contains("operator.yaml:45: the placeholder") && !told.contains("missing"), "{told}");
}

fn case(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/config/cases").join(name)
}

fn shown(case: &Path) -> String {
    let mut text = String::new();
    match read(case) {
        Ok(chosen) => {
            chosen.notices.iter().for_each(|notice| writeln!(text, "{notice}").unwrap());
            for entries in chosen.layers {
                let origin = |line| Origin::File { path: chosen.path.clone(), line };
                let Translated { entries, problems, notices } = translate(entries, origin);
                writeln!(text, "---").unwrap();
                for entry in entries {
                    let line = entry.line.map(|line| line.to_string()).unwrap_or_default();
                    writeln!(text, "{line}: {}={}", entry.key, entry.value).unwrap();
                }
                notices.iter().for_each(|notice| writeln!(text, "{notice}").unwrap());
                problems.iter().for_each(|problem| write_problem(&mut text, problem));
            }
        }
        Err(problem) => write_problem(&mut text, &problem),
    }
    text
}

fn write_problem(text: &mut String, problem: &Problem) {
    let source = std::error::Error::source(problem).map(|source| format!(": {source}"));
    writeln!(text, "error: {problem}{}", source.unwrap_or_default()).unwrap();
    problem.fix().iter().for_each(|fix| writeln!(text, "fix: {fix}").unwrap());
}
