//! Statements that a command proposes, each with its undo statement: shown, printed as a script, or run.

use serde_json::{Value, json};

use super::waiting::reporting_waits;
use crate::cli::{print_message, print_text};
use crate::error::{Diagnose, Diagnosis, Exit};
use crate::postgres::{self, ServerOptions, Sql};

/// SQLSTATE `insufficient_privilege`.
const NO_RIGHT: &str = "42501";

/// One statement, or one request to another program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::cli) struct Step {
    /// Object or action for a message: `publication "orders"`.
    pub(in crate::cli) what: String,
    /// Statement without the semicolon at its end.
    pub(in crate::cli) sql: String,
    /// Statement that undoes it; none when nothing needs to.
    pub(in crate::cli) undo: Option<String>,
    /// True if it is as it should be already.
    pub(in crate::cli) done: bool,
    /// True if it is no SQL but a request over HTTP: `PUT http://…`.
    pub(in crate::cli) is_request: bool,
}

impl Step {
    pub(in crate::cli) fn new(
        what: impl Into<String>,
        sql: impl Into<String>,
        undo: impl Into<String>,
    ) -> Self {
        Self { undo: Some(undo.into()), ..Self::for_good(what, sql) }
    }

    /// Makes a step that cannot be undone.
    pub(in crate::cli) fn for_good(what: impl Into<String>, sql: impl Into<String>) -> Self {
        Self { what: what.into(), sql: sql.into(), undo: None, done: false, is_request: false }
    }

    /// Marks it as a request.
    pub(in crate::cli) fn request(self) -> Self {
        Self { is_request: true, ..self }
    }

    /// Marks it as done already, if `done`.
    pub(in crate::cli) fn unless(self, done: bool) -> Self {
        Self { done, ..self }
    }
}

/// Reasons why not every statement was run.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum StepError {
    /// The role may not.
    #[error("role {role:?} may not do this: {}", first_line(&statements(remaining)))]
    NoRight {
        /// Role of the session.
        role: String,
        /// Steps that were not run, this one first.
        remaining: Vec<Step>,
        source: Box<postgres::Error>,
    },
    /// Any other failure.
    #[error("{what} failed")]
    Failed { what: String, source: Box<postgres::Error> },
}

impl Diagnose for StepError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::NoRight { remaining, .. } => Diagnosis::definite(Exit::Precondition).with_fix(format!(
                "as a superuser, or as a role that may:\n{}\nthen run this again",
                statements(remaining)
            )),
            Self::Failed { source, .. } => source.diagnosis(),
        }
    }
}

/// Returns the steps as text: existing objects in one line, the others with their undo statements.
pub(in crate::cli) fn shown(steps: &[Step]) -> String {
    let mut text = String::new();
    for Step { what, sql, undo, done, is_request } in steps {
        if *done {
            text.push_str(&format!("  already there: {what}\n"));
            continue;
        }
        let end = if *is_request { "" } else { ";" };
        text.push_str(&format!("  {what}\n    {}{end}\n", sql.trim_end().replace('\n', "\n    ")));
        if let Some(undo) = undo {
            text.push_str(&format!("    undo: {undo}{end}\n"));
        }
    }
    text
}

/// Returns the script for psql.
pub(in crate::cli) fn script(steps: &[Step]) -> String {
    let mut text = String::new();
    for Step { what, sql, undo, done, .. } in steps {
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

/// Returns the steps for a script, as JSON.
pub(in crate::cli) fn object(steps: &[Step]) -> Value {
    steps
        .iter()
        .map(|Step { what, sql, undo, done, is_request }| {
            let kind = if *is_request { "request" } else { "sql" };
            json!({ "what": what, kind: sql, "undo": undo, "done": done })
        })
        .collect()
}

/// Database in which statements are run.
#[derive(Clone, Copy)]
pub(in crate::cli) struct Database<'s> {
    pub(in crate::cli) sql: &'s Sql,
    pub(in crate::cli) server: &'s ServerOptions,
}

/// Steps of a command: each is shown before it is done, and recorded after that.
#[derive(Debug, Default)]
pub(in crate::cli) struct CompletedSteps(Vec<Step>);

impl CompletedSteps {
    /// Runs a statement. What is done already is skipped.
    ///
    /// # Errors
    /// When it fails.
    pub(in crate::cli) async fn run(&mut self, database: Database<'_>, step: Step) -> Result<(), StepError> {
        let statement = step.clone();
        let work = async {
            let work = database.sql.execute(&statement.what, &statement.sql);
            let outcome = reporting_waits(database.sql, database.server, &statement.what, work).await;
            outcome.map_err(|source| failed(database, std::slice::from_ref(&statement), source))
        };
        self.carry_out(step, work).await
    }

    /// Carries out a step by its work.
    ///
    /// # Errors
    /// Those of the work.
    pub(in crate::cli) async fn carry_out<T: Default, E>(
        &mut self,
        step: Step,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        if step.done {
            return Ok(T::default());
        }
        print_text(&shown(std::slice::from_ref(&step)));
        let outcome = work.await?;
        self.0.push(step.unless(true));
        Ok(outcome)
    }

    pub(in crate::cli) fn object(&self) -> Value {
        object(&self.0)
    }
}

/// Runs what is not done yet, one statement after another, and prints each. They have been shown before.
///
/// # Errors
/// At the first one that fails. Those before it stay: running the command again continues from there.
pub(in crate::cli) async fn apply(database: Database<'_>, steps: &[Step]) -> Result<(), StepError> {
    let mut remaining = steps;
    while let Some((step, others)) = remaining.split_first() {
        if !step.done {
            let work = database.sql.execute(&step.what, &step.sql);
            let outcome = reporting_waits(database.sql, database.server, &step.what, work).await;
            outcome.map_err(|source| failed(database, remaining, source))?;
            print_message(&format!("made {}", step.what));
        }
        remaining = others;
    }
    Ok(())
}

/// Makes the error for the first of these, which was not run.
pub(in crate::cli) fn failed(database: Database<'_>, steps: &[Step], source: postgres::Error) -> StepError {
    let source = Box::new(source);
    if source.sqlstate() == Some(NO_RIGHT) {
        let remaining = steps.iter().filter(|step| !step.done).cloned().collect();
        return StepError::NoRight { role: database.server.user.clone(), remaining, source };
    }
    StepError::Failed { what: steps.first().map(|step| step.what.clone()).unwrap_or_default(), source }
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
            Step::for_good("settings", "SET x = 1"),
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
    fn a_request_is_shown_as_it_is_made() {
        let step = Step::new("stop it", "PUT http://c/stop", "PUT http://c/resume").request();
        let expected = "  stop it\n    PUT http://c/stop\n    undo: PUT http://c/resume\n";
        assert_eq!(shown(std::slice::from_ref(&step)), expected);
        assert_eq!(object(&[step])[0]["request"], "PUT http://c/stop");
    }

    #[test]
    fn without_rights_all_remaining_steps_are_listed() {
        let source = Box::new(postgres::Error::Standby);
        let error = StepError::NoRight { role: "app".to_owned(), remaining: steps().split_off(1), source };
        assert_eq!(error.to_string(), "role \"app\" may not do this: CREATE TABLE t (");
        let fix = error.fix().unwrap();
        assert!(fix.contains("  a int\n);\nSET x = 1;\n"), "{fix}");
        assert_eq!(error.exit(), Exit::Precondition);
    }
}
