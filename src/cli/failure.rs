//! Output of a command's failure: for a person, with `--json` as one object for a script, or as a line of the JSON log.

use std::ffi::OsString;
use std::sync::OnceLock;

use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use serde_json::{Value, json};

use super::args::{Args, ConfigArgs};
use super::print_message;
use crate::error::{Class, Diagnose, Exit, causes, remember_configuration, report};
use crate::telemetry::LogFormat;

/// True if the command line has `--json`.
static AS_JSON: OnceLock<bool> = OnceLock::new();

/// True if the process logs JSON: its failure is a log line then.
static LOGS_JSON: OnceLock<bool> = OnceLock::new();

/// Reads the command line, and remembers its `--json` and its configuration for all later failures.
///
/// # Errors
///
/// With the exit code when it cannot be parsed; the reason is printed on standard error.
pub(super) fn parse(command_line: Vec<OsString>) -> Result<Args, Exit> {
    let as_json = *AS_JSON.get_or_init(|| wants_json(command_line.iter().cloned()));
    let matches = Args::command().try_get_matches_from(command_line);
    let args = matches.and_then(|matches| {
        if let Some(typed) = configuration(&matches).typed() {
            remember_configuration(typed);
        }
        Args::from_arg_matches(&matches)
    });
    args.map_err(|error| {
        // Help and version were requested.
        if !as_json || !error.use_stderr() {
            error.exit();
        }
        print_message(&usage(&error.to_string()).to_string());
        Exit::Usage
    })
}

/// Remembers the format of the log for all later failures.
pub(super) fn follow_log(format: LogFormat) {
    LOGS_JSON.get_or_init(|| format == LogFormat::Json);
}

/// Prints on standard error what failed and how to fix it.
pub(super) fn fail(error: &dyn Diagnose) -> Exit {
    let exit = error.exit();
    let logs_json = LOGS_JSON.get().copied().unwrap_or_default();
    if logs_json && tracing::enabled!(tracing::Level::ERROR) {
        let because = causes(error).map(ToString::to_string).reduce(|all, cause| format!("{all}: {cause}"));
        let (class, code) = (error.class().name(), exit.code());
        tracing::error!(because, fix = error.fix(), class, code, exit_code = code, "{error}");
        return exit;
    }
    // A filter that hides errors, or a log that cannot start, hides no reason for an end.
    let as_json = logs_json || AS_JSON.get().copied().unwrap_or_default();
    print_message(&if as_json { object(error, exit).to_string() } else { report(error) });
    exit
}

/// Returns whether `--json` is among the arguments, as no option has it as its value; or whether `run` is to log JSON
/// by its arguments or the environment.
fn wants_json(arguments: impl Iterator<Item = OsString>) -> bool {
    let arguments: Vec<_> = arguments.take_while(|argument| argument != "--").collect();
    let is = |index: usize, text: &str| arguments.get(index).is_some_and(|argument| argument == text);
    let logs_json = is(1, "run")
        && (std::env::var_os("OUTBOXD_LOG_FORMAT").is_some_and(|format| format == "json")
            || (0..arguments.len())
                .any(|n| is(n, "--log=json") || is(n, "--log") && is(n.saturating_add(1), "json")));
    logs_json || (0..arguments.len()).any(|n| is(n, "--json"))
}

fn object(error: &dyn Diagnose, exit: Exit) -> Value {
    let because: Vec<_> = causes(error).map(ToString::to_string).collect();
    let class = error.class().name();
    json!({
        "error": error.to_string(), "because": because, "fix": error.fix(), "class": class, "code": exit.code(),
    })
}

/// Returns the configuration options of the innermost command.
fn configuration(matches: &ArgMatches) -> ConfigArgs {
    let mut innermost = matches;
    while let Some((_, inner)) = innermost.subcommand() {
        innermost = inner;
    }
    let config = innermost.try_get_many("config").ok().flatten().into_iter().flatten().cloned().collect();
    let set = innermost.try_get_many("set").ok().flatten().into_iter().flatten().cloned().collect();
    ConfigArgs { config, set }
}

/// Makes the object of a usage error. clap's text has several paragraphs: the first is the mistake.
fn usage(said: &str) -> Value {
    let (mistake, fix) = said.split_once("\n\n").unwrap_or((said, ""));
    let mistake = mistake.trim().strip_prefix("error: ").unwrap_or(mistake).trim();
    let class = Class::Config.name();
    json!({ "error": mistake, "because": [], "fix": fix.trim(), "class": class, "code": Exit::Usage.code() })
}

#[cfg(test)]
mod tests {
    use clap::error::ErrorKind;

    use super::*;
    use crate::cli::run::assemble::AssembleError;

    #[test]
    fn a_script_has_the_error_its_fix_and_the_exit_code() {
        let error = AssembleError::NoConfiguration;
        let expected = json!({
            "error": error.to_string(), "because": [], "fix": error.fix(), "class": "configuration", "code": 2,
        });
        assert!(error.fix().is_some());
        assert_eq!(object(&error, error.exit()), expected);
    }

    #[test]
    fn a_fix_has_the_configuration_of_the_innermost_command() {
        let of = |line: &str| {
            let matches = Args::command().try_get_matches_from(line.split(' ')).unwrap();
            configuration(&matches).in_commands("outboxd verify -c FILE")
        };
        assert_eq!(
            of("outboxd run -c a.json b.json -X slot.name=s"),
            "outboxd verify -c a.json b.json -X slot.name=s"
        );
        assert_eq!(of("outboxd slot ls -c a.json"), "outboxd verify -c a.json");
        assert_eq!(of("outboxd completions bash"), "outboxd verify -c FILE");
    }

    /// Commands end in the middle of a sentence: an argument may be missing.
    #[test]
    fn printed_commands_have_no_unknown_arguments() {
        let table = include_str!("../../tests/checks/fixes.tsv");
        let printed = table.lines().filter_map(|line| line.split('\t').nth(1));
        let commands: Vec<_> = printed.filter(|fix| fix.starts_with("outboxd ")).collect();
        assert!(commands.len() > 20);
        for command in commands {
            let command = command.replace("TARGET", "-c FILE");
            let words = command.split(' ').map(|word| word.trim_end_matches('.'));
            let error = Args::command().try_get_matches_from(words).err().map(|error| error.kind());
            let unknown = [ErrorKind::UnknownArgument, ErrorKind::InvalidSubcommand];
            assert!(error.is_none_or(|kind| !unknown.contains(&kind)), "{command}: {error:?}");
        }
    }

    #[test]
    fn what_is_no_option_is_not_looked_at() {
        let wants = |arguments: &[&str]| wants_json(arguments.iter().map(OsString::from));
        assert!(wants(&["outboxd", "status", "--json"]));
        assert!(wants(&["outboxd", "run", "--log", "json"]) && wants(&["outboxd", "run", "--log=json"]));
        assert!(
            !wants(&["outboxd", "tail", "--log", "json"]) && !wants(&["outboxd", "run", "--log", "text"])
        );
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
