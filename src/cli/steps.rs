//! Statements that a command proposes, each with what takes it back: shown, printed as a script, or run.

use serde_json::{Value, json};

use super::say;
use crate::error::{Class, Diagnose, Exit};
use crate::postgres::{self, Sql};

/// SQLSTATE `insufficient_privilege`.
const NO_RIGHT: &str = "42501";

/// One statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Step {
    /// What it does, as a person says it: `publication "orders"`.
    pub(super) what: String,
    /// Without the semicolon at its end.
    pub(super) sql: String,
    /// What takes it back; none when nothing needs to.
    pub(super) undo: Option<String>,
    /// Whether it is as it should be already.
    pub(super) done: bool,
}

impl Step {
    pub(super) fn new(what: impl Into<String>, sql: impl Into<String>, undo: impl Into<String>) -> Self {
        Self { what: what.into(), sql: sql.into(), undo: Some(undo.into()), done: false }
    }

    /// The same, which is there already if `done`.
    pub(super) fn unless(self, done: bool) -> Self {
        Self { done, ..self }
    }
}

/// Why not every statement was run.
#[derive(Debug, thiserror::Error)]
pub(super) enum StepError {
    /// The role may not.
    #[error("role {role:?} may not do this: {}", first_line(&statements(remaining)))]
    NoRight {
        /// Who we are.
        role: String,
        /// What was not run, this one first.
        remaining: Vec<Step>,
        source: Box<postgres::Error>,
    },
    /// It failed otherwise.
    #[error("{what} failed")]
    Failed { what: String, source: Box<postgres::Error> },
}

impl Diagnose for StepError {
    fn class(&self) -> Class {
        match self {
            Self::NoRight { .. } => Class::Definite,
            Self::Failed { source, .. } => source.class(),
        }
    }

    fn exit(&self) -> Exit {
        match self {
            Self::NoRight { .. } => Exit::Precondition,
            Self::Failed { source, .. } => source.exit(),
        }
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::NoRight { remaining, .. } => Some(format!(
                "as a superuser, or as a role that may:\n{}\nthen run this again",
                statements(remaining)
            )),
            Self::Failed { source, .. } => source.cure(),
        }
    }
}

/// As a person reads them: what is there already in one line, the others with what takes them back.
pub(super) fn shown(steps: &[Step]) -> String {
    let mut text = String::new();
    for Step { what, sql, undo, done } in steps {
        if *done {
            text.push_str(&format!("  already there: {what}\n"));
            continue;
        }
        text.push_str(&format!("  {what}\n    {};\n", sql.trim_end().replace('\n', "\n    ")));
        if let Some(undo) = undo {
            text.push_str(&format!("    undo: {undo};\n"));
        }
    }
    text
}

/// As psql runs them.
pub(super) fn script(steps: &[Step]) -> String {
    let mut text = String::new();
    for Step { what, sql, undo, done } in steps {
        if *done {
            text.push_str(&format!("-- already there: {what}\n"));
            continue;
        }
        text.push_str(&format!("-- {what}\n"));
        if let Some(undo) = undo {
            text.push_str(&format!("-- undo: {undo};\n"));
        }
        text.push_str(&format!("{};\n", sql.trim_end()));
    }
    text
}

/// As a script reads them.
pub(super) fn object(steps: &[Step]) -> Value {
    steps
        .iter()
        .map(|Step { what, sql, undo, done }| json!({ "what": what, "sql": sql, "undo": undo, "done": done }))
        .collect()
}

/// Runs what is not done yet, one statement after another, and says each.
///
/// # Errors
/// At the first one that fails. Those before it stay: running the command again goes on from there.
pub(super) async fn apply(sql: &Sql, role: &str, steps: &[Step]) -> Result<(), StepError> {
    for (at, step) in steps.iter().enumerate().filter(|(_, step)| !step.done) {
        match sql.execute(&step.what, &step.sql).await {
            Ok(()) => say(&format!("made {}", step.what)),
            Err(source) if source.sqlstate() == Some(NO_RIGHT) => {
                let remaining = steps.iter().skip(at).filter(|step| !step.done).cloned().collect();
                return Err(StepError::NoRight {
                    role: role.to_owned(),
                    remaining,
                    source: Box::new(source),
                });
            }
            Err(source) => {
                return Err(StepError::Failed { what: step.what.clone(), source: Box::new(source) });
            }
        }
    }
    Ok(())
}

fn statements(steps: &[Step]) -> String {
    let statements: Vec<_> = steps.iter().map(|step| format!("{};", step.sql.trim_end())).collect();
    statements.join("\n")
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps() -> Vec<Step> {
        vec![
            Step::new("role a", "CREATE ROLE a", "DROP ROLE a").unless(true),
            Step::new("table t", "CREATE TABLE t (\n  a int\n)\n", "DROP TABLE t"),
            Step { undo: None, ..Step::new("settings", "SET x = 1", "") },
        ]
    }

    #[test]
    fn a_script_has_what_is_to_be_done_and_what_takes_it_back() {
        let expected = "\
-- already there: role a
-- table t
-- undo: DROP TABLE t;
CREATE TABLE t (
  a int
);
-- settings
SET x = 1;
";
        assert_eq!(script(&steps()), expected);
    }

    #[test]
    fn a_person_reads_the_same() {
        let expected = "  already there: role a
  table t
    CREATE TABLE t (
      a int
    );
    undo: DROP TABLE t;
  settings
    SET x = 1;
";
        assert_eq!(shown(&steps()), expected);
    }

    #[test]
    fn who_may_not_is_told_everything_that_remains() {
        let source = Box::new(postgres::Error::Standby);
        let error = StepError::NoRight { role: "app".to_owned(), remaining: steps().split_off(1), source };
        assert_eq!(error.to_string(), "role \"app\" may not do this: CREATE TABLE t (");
        let cure = error.cure().unwrap();
        assert!(cure.contains("  a int\n);\nSET x = 1;\n"), "{cure}");
        assert_eq!(error.exit(), Exit::Precondition);
    }
}
