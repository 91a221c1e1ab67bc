//! Debezium's transforms by script, with expressions in CEL (<https://cel.dev>) instead of a script engine.

mod program;
mod values;

use std::borrow::Cow;

use cel::Value as Cel;
use program::Script;
use values::type_name;

use super::Transform;
use super::error::Problem;
use super::expression::Expression;
use super::settings::Settings;
use crate::Refused;
use crate::source_record::SourceRecord;

/// Transform `FilterByExpression`, which drops records for which the condition does not hold. It replaces
/// `io.debezium.transforms.Filter`.
#[derive(Debug)]
pub(super) struct FilterByExpression {
    condition: Script,
    scope: Scope,
}

/// Transform `RouteByExpression`, which sends records to the topic that the expression returns; null leaves the topic
/// unchanged. It replaces `io.debezium.transforms.ContentBasedRouter`.
#[derive(Debug)]
pub(super) struct RouteByExpression {
    topic: Script,
    scope: Scope,
}

/// Records for which the expression is evaluated (`topic.regex`, `null.handling.mode`).
#[derive(Debug)]
struct Scope {
    topics: Option<Expression>,
    nulls: Nulls,
}

/// Treatment of a tombstone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nulls {
    Keep,
    Drop,
    Evaluate,
}

/// Decision about a record by the scope alone.
enum Passage {
    Keep,
    Drop,
    Evaluate,
}

impl FilterByExpression {
    pub(super) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let (condition, scope) = (Script::read(settings, "condition"), Scope::read(settings));
        Ok(Self { condition: condition?, scope: scope? })
    }
}

impl Transform for FilterByExpression {
    fn apply<'a>(&'a self, record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        match self.scope.passage(&record)? {
            Passage::Keep => return Ok(Some(record)),
            Passage::Drop => return Ok(None),
            Passage::Evaluate => {}
        }
        match self.condition.evaluate(&record)? {
            Cel::Bool(holds) => Ok(holds.then_some(record)),
            other => Err(Problem::ScriptResult { wanted: "true or false", given: type_name(&other) }),
        }
    }

    fn shares_headers(&self, _record: &SourceRecord<'_>) -> bool {
        true
    }
}

impl RouteByExpression {
    pub(super) fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let (topic, scope) = (Script::read(settings, "topic.expression"), Scope::read(settings));
        Ok(Self { topic: topic?, scope: scope? })
    }
}

impl Transform for RouteByExpression {
    fn apply<'a>(&'a self, mut record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, Problem> {
        match self.scope.passage(&record)? {
            Passage::Keep => return Ok(Some(record)),
            Passage::Drop => return Ok(None),
            Passage::Evaluate => {}
        }
        match self.topic.evaluate(&record)? {
            Cel::Null => {}
            Cel::String(topic) => record.topic = Cow::Owned(topic.as_str().to_owned()),
            other => {
                return Err(Problem::ScriptResult { wanted: "a text or null", given: type_name(&other) });
            }
        }
        Ok(Some(record))
    }
}

impl Scope {
    fn read(settings: &mut Settings<'_, '_>) -> Result<Self, Refused> {
        let topics = match settings.text("topic.regex") {
            Some(_) => Some(Expression::read(settings, "topic.regex")?),
            None => None,
        };
        let modes = [("keep", Nulls::Keep), ("drop", Nulls::Drop), ("evaluate", Nulls::Evaluate)];
        Ok(Self { topics, nulls: settings.one_of("null.handling.mode", &modes, Nulls::Keep) })
    }

    fn passage(&self, record: &SourceRecord<'_>) -> Result<Passage, Problem> {
        if let Some(topics) = &self.topics
            && !topics.matches(&record.topic)?
        {
            return Ok(Passage::Keep);
        }
        if !record.value.value.is_null() {
            return Ok(Passage::Evaluate);
        }
        Ok(match self.nulls {
            Nulls::Keep => Passage::Keep,
            Nulls::Drop => Passage::Drop,
            Nulls::Evaluate => Passage::Evaluate,
        })
    }
}
