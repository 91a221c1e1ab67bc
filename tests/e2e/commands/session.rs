//! A session of a page, typed again.

use crate::support::relay::Relay;
use crate::support::terminal::Terminal;
use crate::support::wait::{DEADLINE, eventually, eventually_eq};

/// A line that stands for others.
const LEFT_OUT: &str = "…";
/// Line that interrupts a running command. The lines after it are printed then.
const INTERRUPT: &str = "^C";
/// An empty line between the borders of a screen.
const EMPTY: &str = "│ │";

/// Session that a page shows under a heading.
#[derive(Debug)]
pub(crate) struct Session<'p> {
    text: &'p str,
    environment: Vec<(&'p str, &'p str)>,
}

impl<'p> Session<'p> {
    /// Returns the first session under `heading`.
    pub(crate) fn of(page: &'p str, heading: &str) -> Self {
        let (_, chapter) = page.split_once(&format!("\n## {heading}\n")).unwrap();
        let text = chapter.split("```console\n").nth(1).unwrap().split("```").next().unwrap();
        Self { text, environment: Vec::new() }
    }

    pub(crate) fn with_variable(self, name: &'p str, value: &'p str) -> Self {
        let environment = [self.environment, vec![(name, value)]].concat();
        Self { environment, ..self }
    }

    /// Runs each command, compares its output with the page, and returns the exit codes. `names` maps names of the page
    /// to names of the test. Numbers may differ.
    #[track_caller]
    pub(crate) fn replay(&self, names: &[(&str, String)]) -> Vec<i32> {
        let steps = self.text.split("$ outboxd ").skip(1);
        steps.map(|step| self.step(step, names)).collect()
    }

    /// Runs the one command, which draws on a screen until `q` is typed; the exit code. How wide and how high the screen is makes no
    /// difference, nor do the bars of a chart.
    #[track_caller]
    pub(crate) fn replay_on_screen(&self, names: &[(&str, String)]) -> Option<i32> {
        let (_, step) = self.text.split_once("$ outboxd ").unwrap();
        let (command, expected) = step.split_once('\n').unwrap();
        let mut terminal = Terminal::start(&words(&arguments(command, names)));
        let screen = |terminal: &Terminal| by_the_page(terminal.screen(), names);
        eventually_eq(DEADLINE, &drawn(expected), || drawn(&screen(&terminal)));
        terminal.type_keys("q");
        terminal.wait_for_exit().0
    }

    #[track_caller]
    fn step(&self, step: &str, names: &[(&str, String)]) -> i32 {
        let (command, expected) = step.split_once('\n').unwrap();
        let mut process = Relay::command_with(&words(&arguments(command, names)), &self.environment);
        let said = |process: &Relay| {
            without_waits(&by_the_page(process.stdout() + &process.stderr(), names), expected)
        };
        let (before, after) = expected.split_once(INTERRUPT).unwrap_or((expected, ""));
        let is_interrupted = expected.contains(INTERRUPT);
        let lines = before.trim().lines().count();
        if is_interrupted {
            eventually(DEADLINE, "it has said as much", || {
                let said = said(&process);
                said.lines().count() >= lines && lacks(&said, before).is_empty()
            });
            process.interrupt();
        }
        let exit = process.wait_for_exit(DEADLINE);
        let mut said = said(&process);
        // A command that was still running may have printed more.
        if is_interrupted && after.trim().is_empty() {
            said = said.lines().take(lines).collect::<Vec<_>>().join("\n");
        }
        let expected = expected.replace(INTERRUPT, "");
        let (seen, shown) = (shapes(&said), shapes(&expected));
        if !shown.iter().any(|line| line == LEFT_OUT) {
            assert_eq!(seen, shown, "{command}\n{said}");
            return exit;
        }
        let lacking = lacks(&said, &expected);
        assert!(lacking.is_empty(), "{command}: {lacking:?} is not in\n{said}");
        exit
    }
}

/// Returns the arguments after the program's name, with the names of the test.
fn arguments(command: &str, names: &[(&str, String)]) -> Vec<String> {
    let here = |word: &str| {
        let name = names.iter().find(|(page, _)| *page == word);
        name.map_or_else(|| word.to_owned(), |(_, here)| here.clone())
    };
    command.split_whitespace().map(here).collect()
}

fn words(arguments: &[String]) -> Vec<&str> {
    arguments.iter().map(String::as_str).collect()
}

fn by_the_page(said: String, names: &[(&str, String)]) -> String {
    names.iter().fold(said, |said, (page, here)| said.replace(here, page))
}

/// Removes lines about waiting. They are printed only when it takes long, so a page need not show them.
fn without_waits(said: &str, page: &str) -> String {
    let shown = |line: &str| shapes(page).contains(&shapes(line).concat());
    let lines = said.lines().filter(|line| !line.starts_with("waiting for ") || shown(line));
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns the lines of a page that were not printed, as shapes.
fn lacks(said: &str, page: &str) -> Vec<String> {
    let (seen, mut shown) = (shapes(said), shapes(page));
    shown.retain(|line| line != LEFT_OUT && !seen.contains(line));
    shown
}

/// Returns the shapes of the lines on a screen.
fn drawn(screen: &str) -> Vec<String> {
    let bars = |c: char| ('▁'..='█').contains(&c);
    let borders = fancy_regex::Regex::new("─+").unwrap();
    let mut lines = shapes(&borders.replace_all(&screen.replace(bars, " "), "─"));
    lines.retain(|line| line != EMPTY);
    lines
}

/// Returns the lines without their numbers, in any order: two streams have none.
fn shapes(text: &str) -> Vec<String> {
    let patterns =
        [("[0-9A-F]+/[0-9A-F]+", "LSN"), (r"\d[\d,.:+-]*( (B|KiB|MiB|GiB)\b)?", "N"), (r"\s+", " ")];
    let patterns = patterns.map(|(pattern, with)| (fancy_regex::Regex::new(pattern).unwrap(), with));
    let mut lines: Vec<_> = text
        .trim()
        .lines()
        .map(|line| {
            let shape = |line: String, (pattern, with): &(fancy_regex::Regex, &str)| {
                pattern.replace_all(&line, *with).into_owned()
            };
            patterns.iter().fold(line.to_owned(), shape).trim().to_owned()
        })
        .filter(|line| !line.is_empty())
        .collect();
    lines.sort();
    lines
}
