//! Lines for Kafka's own tools are made in one place, so that each names the brokers and can be pasted.

use super::tidy::{product_lines, repository};

const TOOLS: [&str; 3] = ["kafka-topics.sh ", "kafka-configs.sh ", "kafka-acls.sh "];

#[test]
fn every_line_for_a_tool_of_kafka_names_the_brokers() {
    let files = repository();
    let sources = files.iter().filter(|file| file.path.starts_with("src/") && file.path.ends_with(".rs"));
    let broken: Vec<_> = sources
        .flat_map(|file| {
            product_lines(&file.text).into_iter().map(move |(number, line)| (file, number, line))
        })
        .filter(|(_, _, line)| !line.trim_start().starts_with("//"))
        .filter(|(_, _, line)| {
            let rest = TOOLS.into_iter().find_map(|tool| line.split_once(tool)).map(|(_, rest)| rest);
            rest.is_some_and(|rest| !rest.starts_with("--bootstrap-server {"))
        })
        .map(|(file, number, line)| format!("{}:{number}: {line}", file.path))
        .collect();
    assert!(broken.is_empty(), "use kafka::tool_lines: {broken:#?}");
}
