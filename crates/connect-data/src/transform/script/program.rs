//! Compiled CEL expressions.

use std::sync::Arc;

use cel::common::ast::{EntryExpr, Expr};
use cel::{Context, Env, ExecutionError, IdedExpr, Program, Value as Cel};

use super::values::{type_name, variable};
use crate::Refused;
use crate::source_record::SourceRecord;
use crate::transform::error::Problem;
use crate::transform::settings::Settings;

/// Names that an expression may use.
const VARIABLES: [&str; 4] = ["topic", "key", "value", "header"];

/// Compiled expression.
pub(super) struct Script {
    program: Program,
    environment: Arc<Env>,
    /// Names among [`VARIABLES`] that it reads; no other value is created.
    reads: Vec<&'static str>,
}

impl Script {
    pub(super) fn read(settings: &mut Settings<'_, '_>, option: &str) -> Result<Self, Refused> {
        let text = settings.required(option)?;
        Self::compile(&text).map_err(|reason| settings.refuse(option, reason))
    }

    fn compile(text: &str) -> Result<Self, String> {
        let mut environment = Env::stdlib();
        environment.add_extension(cel::extensions::strings).map_err(|error| error.to_string())?;
        let program = environment.compile(text).map_err(|errors| format!("it is not CEL: {errors}"))?;
        let references = program.references();
        let reads: Vec<_> =
            VARIABLES.into_iter().filter(|variable| references.has_variable(*variable)).collect();
        let mut bound = Vec::new();
        collect_bound(&program.expression().expr, &mut bound);
        let is_known = |name: &&str| VARIABLES.contains(name) || bound.contains(name);
        if let Some(name) = references.variables().into_iter().find(|name| !is_known(name)) {
            return Err(format!("there is no {name:?} here; it may look at {}", VARIABLES.join(", ")));
        }
        if reads.is_empty() {
            return Err(format!("it looks at none of {}", VARIABLES.join(", ")));
        }
        Ok(Self { program, environment: Arc::new(environment), reads })
    }

    pub(super) fn evaluate(&self, record: &SourceRecord<'_>) -> Result<Cel, Problem> {
        let mut context = Context::with_env(Arc::clone(&self.environment));
        for name in &self.reads {
            context.add_variable_from_value(*name, variable(name, record));
        }
        self.program.execute(&context).map_err(|error| Problem::Script(reason(&error)))
    }
}

impl std::fmt::Debug for Script {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Script").field("reads", &self.reads).finish_non_exhaustive()
    }
}

/// Collects the names that macros like `exists` give to the elements of a list.
fn collect_bound<'e>(expression: &'e Expr, bound: &mut Vec<&'e str>) {
    let mut below: Vec<&IdedExpr> = Vec::new();
    match expression {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => {}
        Expr::Call(call) => below.extend(call.target.as_deref().into_iter().chain(&call.args)),
        Expr::Comprehension(of) => {
            bound.push(&of.iter_var);
            bound.extend(of.iter_var2.as_deref());
            bound.push(&of.accu_var);
            below.extend([&of.iter_range, &of.accu_init, &of.loop_cond, &of.loop_step, &of.result]);
        }
        Expr::List(list) => below.extend(&list.elements),
        Expr::Map(map) => below.extend(map.entries.iter().flat_map(|entry| entry_parts(&entry.expr))),
        Expr::Select(select) => below.push(&select.operand),
        Expr::Struct(of) => below.extend(of.entries.iter().flat_map(|entry| entry_parts(&entry.expr))),
    }
    for inner in below {
        collect_bound(&inner.expr, bound);
    }
}

fn entry_parts(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

/// Returns the cause of a failure, without the record's values.
fn reason(error: &ExecutionError) -> String {
    match error {
        ExecutionError::NoSuchKey(name) => format!("there is no field {name:?}"),
        ExecutionError::UndeclaredReference(name) => format!("there is no {name:?}"),
        ExecutionError::NoSuchOverload(overload) => overload.to_string(),
        ExecutionError::ValuesNotComparable(left, right) => {
            format!("{} and {} cannot be compared", type_name(left), type_name(right))
        }
        ExecutionError::DivisionByZero(_) | ExecutionError::RemainderByZero(_) => {
            "a division by zero".to_owned()
        }
        ExecutionError::Overflow(..) => "a number is too large".to_owned(),
        ExecutionError::UnexpectedType { got, want } => format!("{want} is wanted, not {got}"),
        ExecutionError::FunctionError { function, .. } => format!("the function {function:?} failed"),
        ExecutionError::IndexOutOfBounds(_) => "a list is not as long".to_owned(),
        ExecutionError::UnsupportedTargetType { target } => {
            format!("a function does not take {}", type_name(target))
        }
        ExecutionError::NotSupportedAsMethod { method, target } => {
            format!("{} has no {method:?}", type_name(target))
        }
        _ => "an operator or a function does not take what it is given".to_owned(),
    }
}
