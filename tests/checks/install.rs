//! Files that install outboxd, compared with the rest of the repository: the chart, its committed output, and the files of the Debian package.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

use super::tidy::{File, repository};

const CHART: &str = "docker/helm/outboxd/";
const UPDATE: &str = "to fix: tests/install/kubernetes/run --update";

#[test]
fn the_committed_manifests_are_of_this_chart() {
    let expected = read("tests/install/kubernetes/chart.sha256");
    assert_eq!(checksum(&repository()), expected.trim(), "{UPDATE}");
}

#[test]
fn a_change_of_the_chart_or_of_its_values_changes_the_checksum() {
    let files = |template: &str, values: &str| {
        vec![
            File { path: format!("{CHART}templates/a.yaml"), text: template.to_owned() },
            File { path: "tests/install/kubernetes/a.values.yaml".to_owned(), text: values.to_owned() },
            File { path: format!("{CHART}files/alerts.yaml"), text: template.to_owned() },
        ]
    };
    let checksums = [("a", "b"), ("ab", ""), ("a", "c")].map(|(a, b)| checksum(&files(a, b)));
    assert!(checksums.iter().all(|one| checksums.iter().filter(|other| one == *other).count() == 1));
}

#[test]
fn the_rules_of_the_chart_are_those_of_prometheus() {
    let rules = read("docker/prometheus/alerts.yaml");
    assert_eq!(read("docker/helm/outboxd/files/alerts.yaml"), rules);
    let indented = rules.trim().lines().fold(String::new(), |mut text, line| {
        // As the chart's `indent 2`, which also indents empty lines.
        writeln!(text, "  {line}").unwrap();
        text
    });
    let made = read("tests/install/kubernetes/monitored.expected.yaml");
    assert!(made.ends_with(&format!("\nspec:\n{indented}")), "{UPDATE}");
}

#[test]
fn the_chart_has_the_version_of_the_program() {
    let chart = read("docker/helm/outboxd/Chart.yaml");
    let version = format!("\nappVersion: {}\n", env!("CARGO_PKG_VERSION"));
    assert!(chart.contains(&version), "docker/helm/outboxd/Chart.yaml has no {version:?}");
}

#[test]
fn the_unit_restarts_by_the_exit_codes_of_the_operations_page() {
    let page = read("docs/operations.md");
    let (_, sentence) = page.split_once("Restart automatically after 1, 4 and 5. ").unwrap();
    let (codes, _) = sentence.split_once(" recur").unwrap();
    let codes: Vec<_> = codes.split(|c: char| !c.is_ascii_digit()).filter(|code| !code.is_empty()).collect();
    let unit = read("docker/debian/outboxd@.service");
    let line = format!("\nRestartPreventExitStatus={}\n", codes.join(" "));
    assert!(unit.contains(&line), "docker/debian/outboxd@.service has no {line:?}");
}

/// Computes the checksum of the chart like tests/install/kubernetes/checksum.py.
fn checksum(files: &[File]) -> String {
    let is_part = |path: &str| {
        path.starts_with(CHART) && path != format!("{CHART}files/alerts.yaml")
            || path.starts_with("tests/install/kubernetes/") && path.ends_with(".values.yaml")
    };
    let mut parts: Vec<_> = files.iter().filter(|file| is_part(&file.path)).collect();
    parts.sort_by_key(|file| &file.path);
    let mut checksum = Sha256::new();
    for part in parts {
        checksum.update(format!("{}\0{}\0", part.path, part.text));
    }
    checksum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

fn read(path: &str) -> String {
    repository()
        .into_iter()
        .find(|file| file.path == path)
        .unwrap_or_else(|| panic!("{path} is missing"))
        .text
}
