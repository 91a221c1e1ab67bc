//! How a command says why it has failed: for a person, or with `--json` as one object for a script.

use std::ffi::OsString;
use std::sync::OnceLock;

use clap::Parser as _;
use serde_json::{Value, json};

use super::args::Args;
use super::say;
use crate::error::{Diagnose, Exit, causes, report};

/// Whether the command line says `--json`.
static AS_JSON: OnceLock<bool> = OnceLock::new();

/// Reads the command line. What it asks for is remembered for all that fails later.
///
/// # Errors
/// With the exit code when it cannot be understood; why is said on standard error.
pub(super) fn parse(command_line: Vec<OsString>) -> Result<Args, Exit> {
    let as_json = *AS_JSON.get_or_init(|| wants_json(command_line.iter().cloned()));
    Args::try_parse_from(command_line).map_err(|error| {
        // Help and version are asked for.
        if !as_json || !error.use_stderr() {
            error.exit();
        }
        say(&usage(&error.to_string()).to_string());
        Exit::Usage
    })
}

/// Says on standard error what went wrong and how to cure it.
pub(super) fn fail(error: &dyn Diagnose) -> Exit {
    let exit = error.exit();
    let as_json = AS_JSON.get().copied().unwrap_or_default();
    say(&if as_json { object(error, exit).to_string() } else { report(error) });
    exit
}

/// No option takes it for its value.
fn wants_json(arguments: impl Iterator<Item = OsString>) -> bool {
    arguments.take_while(|argument| argument != "--").any(|argument| argument == "--json")
}

fn object(error: &dyn Diagnose, exit: Exit) -> Value {
    let because: Vec<_> = causes(error).map(ToString::to_string).collect();
    json!({ "error": error.to_string(), "because": because, "fix": error.cure(), "code": exit.code() })
}

/// What clap says in several paragraphs: the first is the mistake.
fn usage(said: &str) -> Value {
    let (mistake, fix) = said.split_once("\n\n").unwrap_or((said, ""));
    let mistake = mistake.trim().strip_prefix("error: ").unwrap_or(mistake).trim();
    json!({ "error": mistake, "because": [], "fix": fix.trim(), "code": Exit::Usage.code() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::assemble::AssembleError;

    #[test]
    fn a_script_has_the_error_its_cure_and_the_exit_code() {
        let error = AssembleError::NoConfiguration;
        let expected = json!({
            "error": error.to_string(), "because": [], "fix": error.cure(), "code": 2,
        });
        assert!(error.cure().is_some());
        assert_eq!(object(&error, error.exit()), expected);
    }

    #[test]
    fn what_is_no_option_is_not_looked_at() {
        let wants = |arguments: &[&str]| wants_json(arguments.iter().map(OsString::from));
        assert!(wants(&["outboxd", "status", "--json"]));
        assert!(!wants(&["outboxd", "explain", "--", "--json"]) && !wants(&["outboxd", "status"]));
    }

    #[test]
    fn a_mistake_in_the_command_line_is_its_first_paragraph() {
        let said = "error: invalid value '0' for '--every <TIME>': too short\n\nFor more information, try '--help'.\n";
        let object = usage(said);
        assert_eq!(object["error"], "invalid value '0' for '--every <TIME>': too short");
        assert_eq!(
            (&object["fix"], &object["code"]),
            (&"For more information, try '--help'.".into(), &2.into())
        );
    }
}
