//! A session of a page, typed again.

use crate::support::relay::Relay;
use crate::support::wait::{DEADLINE, eventually};

/// A line that stands for others.
const LEFT_OUT: &str = "…";
/// A line that ends what would go on.
const INTERRUPT: &str = "^C";

/// What a page shows under a heading.
#[derive(Debug)]
pub(crate) struct Session<'p> {
    text: &'p str,
    environment: Vec<(&'p str, &'p str)>,
}

impl<'p> Session<'p> {
    /// The first session under `heading`.
    pub(crate) fn of(page: &'p str, heading: &str) -> Self {
        let (_, chapter) = page.split_once(&format!("\n## {heading}\n")).unwrap();
        let text = chapter.split("```console\n").nth(1).unwrap().split("```").next().unwrap();
        Self { text, environment: Vec::new() }
    }

    pub(crate) fn with_variable(self, name: &'p str, value: &'p str) -> Self {
        let environment = [self.environment, vec![(name, value)]].concat();
        Self { environment, ..self }
    }

    /// Runs each command, and holds what it says against the page; the exit codes. `names` are what the page calls something,
    /// and what it is called here. Numbers need not be the same.
    #[track_caller]
    pub(crate) fn replay(&self, names: &[(&str, String)]) -> Vec<i32> {
        let steps = self.text.split("$ outboxd ").skip(1);
        steps.map(|step| self.step(step, names)).collect()
    }

    #[track_caller]
    fn step(&self, step: &str, names: &[(&str, String)]) -> i32 {
        let (command, expected) = step.split_once('\n').unwrap();
        let here = |word: &str| {
            let name = names.iter().find(|(page, _)| *page == word);
            name.map_or_else(|| word.to_owned(), |(_, here)| here.clone())
        };
        let arguments: Vec<_> = command.split_whitespace().map(here).collect();
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let mut process = Relay::command_with(&arguments, &self.environment);
        let ends = !expected.lines().any(|line| line == INTERRUPT);
        let expected = expected.replace(INTERRUPT, "");
        let lines = expected.trim().lines().count();
        if !ends {
            eventually(DEADLINE, "it has said as much", || process.stdout().lines().count() >= lines);
            process.interrupt();
        }
        let exit = process.wait_for_exit(DEADLINE);
        let mut said = process.stdout() + &process.stderr();
        for (page, here) in names {
            said = said.replace(here, page);
        }
        // What went on may have said more.
        if !ends {
            said = said.lines().take(lines).collect::<Vec<_>>().join("\n");
        }
        let (seen, mut shown) = (shapes(&said), shapes(&expected));
        if !shown.iter().any(|line| line == LEFT_OUT) {
            assert_eq!(seen, shown, "{command}\n{said}");
            return exit;
        }
        shown.retain(|line| line != LEFT_OUT && !seen.contains(line));
        assert!(shown.is_empty(), "{command}: {shown:?} is not in\n{said}");
        exit
    }
}

/// The lines without their numbers, in any order: two streams have none.
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
