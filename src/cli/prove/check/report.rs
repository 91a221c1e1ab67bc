//! Results of checks, and their output.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::{Value, json};

use super::codes::Code;
use crate::error::{Diagnose, causes};

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Check {
    pub(super) code: Code,
    pub(super) outcome: Outcome,
    /// Finding, in one line.
    pub(super) title: String,
    /// Consequence, or reason.
    pub(super) detail: Option<String>,
    /// Statement or command to type.
    pub(super) fix: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Outcome {
    Ok,
    /// Information that requires no action.
    Note,
    /// Not checked, because a prerequisite is missing.
    Skipped,
    /// Working at present, but at risk.
    Warning,
    /// Failing.
    Failure,
}

impl Check {
    pub(super) fn new(code: Code, outcome: Outcome, title: impl Into<String>) -> Self {
        Self { code, outcome, title: title.into(), detail: None, fix: None }
    }

    pub(super) fn ok(code: Code, title: impl Into<String>) -> Self {
        Self::new(code, Outcome::Ok, title)
    }

    pub(super) fn note(code: Code, title: impl Into<String>) -> Self {
        Self::new(code, Outcome::Note, title)
    }

    pub(super) fn skipped(code: Code, title: impl Into<String>) -> Self {
        Self::new(code, Outcome::Skipped, title)
    }

    pub(super) fn warning(code: Code, title: impl Into<String>) -> Self {
        Self::new(code, Outcome::Warning, title)
    }

    pub(super) fn failure(code: Code, title: impl Into<String>) -> Self {
        Self::new(code, Outcome::Failure, title)
    }

    /// Makes the failure of an error that would stop `run`.
    pub(super) fn error(code: Code, error: &dyn Diagnose) -> Self {
        let because: Vec<_> = causes(error).map(|cause| format!("because: {cause}")).collect();
        Self {
            detail: (!because.is_empty()).then(|| because.join("\n")),
            fix: error.fix(),
            ..Self::failure(code, error.to_string())
        }
    }

    pub(super) fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: Some(detail.into()), ..self }
    }

    pub(super) fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: Some(fix.into()), ..self }
    }
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Skipped => "skipped",
            Self::Warning => "warning",
            Self::Failure => "failure",
        }
    }

    const fn sign(self) -> &'static str {
        match self {
            Self::Ok => "✓",
            Self::Note => "·",
            Self::Skipped => "–",
            Self::Warning => "!",
            Self::Failure => "✗",
        }
    }

    /// Returns the ANSI sequence of the outcome's colour.
    const fn colour(self) -> &'static str {
        match self {
            Self::Ok => "\x1b[32m",
            Self::Note | Self::Skipped => "\x1b[2m",
            Self::Warning => "\x1b[33m",
            Self::Failure => "\x1b[31m",
        }
    }
}

/// Formats the checks for the output of another command, without codes.
pub(in crate::cli) fn told(checks: &[Check]) -> String {
    let mut text = String::new();
    for check in checks {
        text.push_str(&format!("{} {}\n", check.outcome.sign(), hanging(&check.title, "  ")));
        let more = [("", "  ", &check.detail), ("to fix: ", "          ", &check.fix)];
        for (label, indent, said) in more {
            let said = said.iter().map(|said| format!("  {label}{}\n", hanging(said, indent)));
            text.extend(said);
        }
    }
    text
}

/// Returns a check as a JSON object.
pub(in crate::cli) fn as_object(check: &Check) -> Value {
    json!({
        "code": check.code.as_str(),
        "title": check.title,
        "outcome": check.outcome.name(),
        "detail": check.detail,
        "fix": check.fix,
        // Its name before, for one release.
        "cure": check.fix,
    })
}

/// Returns the worst outcome of the checks.
pub(super) fn worst(checks: &[Check]) -> Outcome {
    checks.iter().map(|check| check.outcome).max().unwrap_or(Outcome::Ok)
}

/// Prints the checks to standard output. A closed output is no error.
pub(super) fn print(checks: &[Check], as_json: bool) {
    let text = if as_json { text(checks) } else { lines(checks, wants_colour()) };
    let mut out = io::stdout().lock();
    drop(out.write_all(text.as_bytes()).and_then(|()| out.flush()));
}

/// Returns the checks as the text of one JSON object.
pub(super) fn text(checks: &[Check]) -> String {
    format!("{:#}\n", object(checks))
}

fn wants_colour() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    !refused && io::stdout().is_terminal()
}

fn object(checks: &[Check]) -> Value {
    json!({
        "outcome": worst(checks).name(),
        "warnings": count(checks, Outcome::Warning),
        "failures": count(checks, Outcome::Failure),
        "checks": checks.iter().map(as_object).collect::<Vec<_>>(),
    })
}

fn lines(checks: &[Check], coloured: bool) -> String {
    let mut text = String::new();
    for check in checks {
        let sign = check.outcome.sign();
        let sign =
            if coloured { format!("{}{sign}\x1b[0m", check.outcome.colour()) } else { sign.to_owned() };
        text.push_str(&format!("{sign} {}  [{}]\n", hanging(&check.title, "  "), check.code));
        if check.outcome == Outcome::Ok {
            continue;
        }
        if let Some(detail) = &check.detail {
            text.push_str(&format!("    {}\n", hanging(detail, "    ")));
        }
        if let Some(fix) = &check.fix {
            text.push_str(&format!("    to fix: {}\n", hanging(fix, "            ")));
        }
    }
    text.push_str(&summary(checks));
    text.push('\n');
    text
}

fn summary(checks: &[Check]) -> String {
    let tell = |outcome, name: &str| match count(checks, outcome) {
        0 => format!("no {name}s"),
        1 => format!("1 {name}"),
        many => format!("{many} {name}s"),
    };
    let counted = format!("{}, {}", tell(Outcome::Failure, "failure"), tell(Outcome::Warning, "warning"));
    match worst(checks) {
        Outcome::Failure => format!("not ready to run: {counted}"),
        Outcome::Warning => format!("ready to run: {counted}"),
        _ => "ready to run".to_owned(),
    }
}

fn count(checks: &[Check], outcome: Outcome) -> usize {
    checks.iter().filter(|check| check.outcome == outcome).count()
}

/// Indents further lines, and escapes control characters, so that no text of a server can move the cursor or
/// change colours.
fn hanging(text: &str, indent: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.extend(["\n", indent]),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::codes;
    use super::*;

    fn checks() -> Vec<Check> {
        vec![
            Check::ok(codes::WAL_LEVEL, "wal_level is logical").detail("not shown").fix("nor this"),
            Check::note(codes::SLOT_WAL_KEEP, "no limit").detail("the disk"),
            Check::warning(codes::NULLABLE, "column \"k\" may be NULL").fix("ALTER TABLE t;\nthen wait"),
            Check::failure(codes::LOGIN, "no\u{1b}[31m login").detail("because: x\nbecause: y"),
        ]
    }

    #[test]
    fn a_person_reads_what_matters() {
        let expected = "\
✓ wal_level is logical  [PG003]
· no limit  [PG009]
    the disk
! column \"k\" may be NULL  [PG023]
    to fix: ALTER TABLE t;
            then wait
✗ no\\u{1b}[31m login  [PG001]
    because: x
    because: y
not ready to run: 1 failure, 1 warning
";
        assert_eq!(lines(&checks(), false), expected);
    }

    #[test]
    fn colours_go_to_signs_only() {
        let coloured = lines(&checks(), true);
        let plain = ["\x1b[32m", "\x1b[2m", "\x1b[33m", "\x1b[31m", "\x1b[0m"]
            .iter()
            .fold(coloured.clone(), |text, sequence| text.replace(sequence, ""));
        assert_eq!(plain, lines(&checks(), false));
        assert_eq!(coloured.matches("\x1b[0m").count(), checks().len());
    }

    #[test]
    fn the_worst_decides() {
        let all = checks();
        let cases = [
            (&all[..0], Outcome::Ok, "ready to run"),
            (&all[..2], Outcome::Note, "ready to run"),
            (&all[..3], Outcome::Warning, "ready to run: no failures, 1 warning"),
            (&all[..4], Outcome::Failure, "not ready to run: 1 failure, 1 warning"),
        ];
        for (checks, outcome, told) in cases {
            assert_eq!(worst(checks), outcome);
            assert_eq!(summary(checks), told);
        }
    }

    #[test]
    fn json_has_everything() {
        let object = object(&checks());
        assert_eq!(object["outcome"], "failure");
        assert_eq!((object["warnings"].as_u64(), object["failures"].as_u64()), (Some(1), Some(1)));
        let first = json!({
            "code": "PG003", "title": "wal_level is logical", "outcome": "ok", "detail": "not shown", "fix": "nor this",
            "cure": "nor this"
        });
        assert_eq!(object["checks"][0], first);
        assert_eq!(object["checks"][3]["fix"], Value::Null);
    }
}
