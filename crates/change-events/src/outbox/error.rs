//! Errors of tables and rows that the router cannot use.

use postgres_protocol::escape::escape_identifier;

use super::topic::TopicError;
use super::topic::name::IllegalTopicName;
use connect_data::column::ColumnError;
use connect_data::converter::ConvertError;
use connect_data::transform::error::TransformError;

/// A table that cannot be an outbox with these options.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("table {table} {}", list(prefix, problems))]
pub struct BindError {
    /// The prefix of the options in the user's configuration: `transforms.outbox.`.
    pub prefix: String,
    /// The table, with its schema.
    pub table: String,
    /// All problems, in the order of the options.
    pub problems: Vec<BindProblem>,
}

/// One problem of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BindProblem {
    /// The table lacks the column.
    Missing {
        /// The option that names the column.
        option: &'static str,
        /// The column.
        column: String,
        /// The table's columns, the most similar name first.
        nearest: Vec<String>,
    },
    /// The user's own lists exclude the column.
    Excluded {
        /// The option that names the column.
        option: &'static str,
        /// The column.
        column: String,
        /// The list.
        by: &'static str,
    },
    /// The column is of the wrong type.
    Unsuitable {
        /// The option that names the column.
        option: &'static str,
        /// The column.
        column: String,
        /// The reason.
        reason: String,
    },
}

/// A row that has no event. The texts name the problem, never a value of the row.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// The column that decides the topic is NULL.
    #[error("a row of table {table} has no topic: column \"{column}\" (route.by.field) is NULL")]
    NullRoute {
        /// The table, with its schema.
        table: String,
        /// The column.
        column: String,
    },
    /// Kafka does not allow the row's topic name.
    #[error(
        "a row of table {table} has no topic: column \"{column}\" (route.by.field) does not lead to a valid \
         topic name"
    )]
    Topic {
        /// The table, with its schema.
        table: String,
        /// The column.
        column: String,
        /// The cause.
        #[source]
        source: TopicProblem,
    },
    /// The row has fewer columns than the table.
    #[error("a row of table {table} came without column \"{column}\"")]
    ShortRow {
        /// The table, with its schema.
        table: String,
        /// The column.
        column: String,
    },
    /// A value cannot be decoded.
    #[error("a row of table {table} cannot be read at column \"{column}\"")]
    Column {
        /// The table, with its schema.
        table: String,
        /// The column.
        column: String,
        /// The cause.
        #[source]
        source: ColumnError,
    },
    /// The EventRouter cannot use the table.
    #[error("the EventRouter receives an event that it cannot route")]
    Unfit(#[source] Box<BindError>),
    /// A row of an outbox was updated, and `table.op.invalid.behavior=fatal`.
    #[error("a row of table {table} was updated, which table.op.invalid.behavior=fatal forbids")]
    Updated {
        /// The table, with its schema.
        table: String,
    },
    /// Values could not be read from the table, and `reselect.error.handling.mode=fail`.
    #[error("columns of a row of table {table} cannot be read again: {reason}")]
    Reselect {
        /// The table, with its schema.
        table: String,
        /// The reason.
        reason: String,
    },
    /// Kafka does not allow the topic name that the transforms chose.
    #[error("the transforms give an event of table {table} a topic that Kafka does not allow")]
    MovedTopic {
        /// The table, with its schema.
        table: String,
        /// The cause.
        #[source]
        source: IllegalTopicName,
    },
    /// A transform failed on the event.
    #[error("an event of table {table} cannot be transformed")]
    Transform {
        /// The table, with its schema.
        table: String,
        /// The cause.
        #[source]
        source: TransformError,
    },
    /// A value cannot be converted.
    #[error("a row of table {table} cannot be converted at column \"{column}\" ({option})")]
    Convert {
        /// The table, with its schema.
        table: String,
        /// The column.
        column: String,
        /// The option that names the converter.
        option: &'static str,
        /// The cause.
        #[source]
        source: ConvertError,
    },
    /// The value of the partition's column is not a partition.
    #[error("a row of table {table} has no partition: column \"{column}\" is not from 0 to 2147483647")]
    Partition {
        /// The table, with its schema.
        table: String,
        /// The column.
        column: String,
    },
    /// The value of the timestamp's column is before 1970, which Kafka does not accept.
    #[error("a row of table {table} has no timestamp: column \"{column}\" is before 1970")]
    Timestamp {
        /// The table, with its schema.
        table: String,
        /// The column.
        column: String,
        /// The earliest value that Kafka accepts, as a literal of the column's type.
        earliest: &'static str,
    },
    /// The value of the timestamp's column is infinite: Kafka has no such time.
    #[error("a row of table {table} has no timestamp: column \"{column}\" is infinite")]
    Infinite {
        /// The table, with its schema.
        table: String,
        /// The column.
        column: String,
    },
}

/// The reason why a route value has no topic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(transparent)]
pub struct TopicProblem(TopicError);

impl From<TopicError> for TopicProblem {
    fn from(error: TopicError) -> Self {
        Self(error)
    }
}

impl RouteError {
    /// Reports whether the row could not be decoded, so that it did not reach routing and converters.
    #[must_use]
    pub const fn is_unreadable(&self) -> bool {
        matches!(self, Self::Column { .. } | Self::ShortRow { .. } | Self::Infinite { .. })
    }

    /// Reports whether the only obstacle is an unknown id of a schema.
    #[must_use]
    pub const fn awaits_schema(&self) -> bool {
        matches!(self, Self::Convert { source: ConvertError::Unregistered(_), .. })
    }

    /// Returns the option that names the converter, if a converter rejects a value.
    #[must_use]
    pub const fn converter(&self) -> Option<&'static str> {
        match self {
            Self::Convert { option, .. } => Some(option),
            _ => None,
        }
    }

    /// Returns the class of the transform that failed on the event.
    #[must_use]
    pub fn transform(&self) -> Option<&str> {
        match self {
            Self::Transform { source, .. } => Some(&source.class),
            _ => None,
        }
    }

    fn table_and_column(&self) -> (&str, &str) {
        match self {
            Self::NullRoute { table, column }
            | Self::Topic { table, column, .. }
            | Self::ShortRow { table, column }
            | Self::Column { table, column, .. }
            | Self::Convert { table, column, .. }
            | Self::Partition { table, column }
            | Self::Timestamp { table, column, .. }
            | Self::Infinite { table, column } => (table, column),
            Self::Transform { table, .. }
            | Self::Updated { table }
            | Self::Reselect { table, .. }
            | Self::MovedTopic { table, .. } => (table, ""),
            Self::Unfit(error) => (&error.table, ""),
        }
    }
}

impl RouteError {
    /// Returns the fix, as sentences or as a command that can be copied.
    #[must_use]
    pub fn fix(&self) -> Option<String> {
        let (table, column) = self.table_and_column();
        let (table, column) = (quoted(table), escape_identifier(column));
        let forbid = match self {
            Self::NullRoute { .. } => format!("ALTER TABLE {table} ALTER COLUMN {column} SET NOT NULL"),
            Self::Topic { .. } => {
                "write only letters, digits, points, underscores and hyphens to the column, \
                 or map its values with route.topic.regex and route.topic.replacement"
                    .to_owned()
            }
            Self::Partition { .. } => format!("ALTER TABLE {table} ADD CHECK ({column} >= 0)"),
            Self::Timestamp { earliest, .. } => {
                format!("ALTER TABLE {table} ADD CHECK ({column} >= {earliest})")
            }
            Self::Infinite { .. } => format!("ALTER TABLE {table} ADD CHECK (isfinite({column}))"),
            Self::Convert { option, .. } => format!("name another {option}, or make the column NOT NULL"),
            Self::Column { source: ColumnError::Malformed(_), .. } => {
                "event.converting.failure.handling.mode=warn sends the column's default or NULL instead"
                    .to_owned()
            }
            Self::Unfit(error) => {
                "give the EventRouter a predicate that leaves the table out".to_owned()
                    + &error.fix().map_or_else(String::new, |fix| format!(", or\n{fix}"))
            }
            Self::Reselect { .. } => "reselect.error.handling.mode=warn sends the row as it came".to_owned(),
            Self::ShortRow { .. }
            | Self::Column { .. }
            | Self::Transform { .. }
            | Self::Updated { .. }
            | Self::MovedTopic { .. } => return Some(TOLERATE.to_owned()),
        };
        Some(format!("{forbid}\n{TOLERATE}"))
    }
}

/// Returns a table, which a message names with its schema, for SQL.
fn quoted(table: &str) -> String {
    table.splitn(2, '.').map(escape_identifier).collect::<Vec<_>>().join(".")
}

const TOLERATE: &str = "errors.tolerance=all skips such rows, and counts and logs them; with \
                        errors.deadletterqueue.topic.name they go there";

impl BindError {
    /// Returns the fix, as sentences or as a command that can be copied.
    #[must_use]
    pub fn fix(&self) -> Option<String> {
        let fixes: Vec<String> =
            self.problems.iter().filter_map(|problem| problem.fix(&self.prefix)).collect();
        (!fixes.is_empty()).then(|| fixes.join("\n"))
    }
}

impl BindProblem {
    fn text(&self, prefix: &str) -> String {
        match self {
            Self::Missing { option, column, .. } => format!("has no column \"{column}\" ({prefix}{option})"),
            Self::Excluded { option, column, by } => {
                format!("has its column \"{column}\" ({prefix}{option}) excluded by {by}")
            }
            Self::Unsuitable { option, column, reason } => {
                format!("has a column \"{column}\" ({prefix}{option}) that cannot be used: {reason}")
            }
        }
    }

    fn fix(&self, prefix: &str) -> Option<String> {
        match self {
            Self::Missing { option, nearest, .. } if option.starts_with("table.fields.additional") => {
                let columns = nearest.join(", ");
                Some(format!(
                    "name one of {columns} in {prefix}{option}, or set {prefix}table.field.additional.missing=ignore"
                ))
            }
            Self::Missing { option, nearest, .. } => Some(format!(
                "{prefix}{option}={}   (the table has {})",
                nearest.first()?,
                nearest.join(", ")
            )),
            Self::Excluded { by, column, .. } if *by == "column.include.list" => {
                Some(format!("add the column \"{column}\" to column.include.list"))
            }
            Self::Excluded { by, column, .. } => Some(format!("take the column \"{column}\" out of {by}")),
            Self::Unsuitable { .. } => None,
        }
    }
}

fn list(prefix: &str, problems: &[BindProblem]) -> String {
    let texts: Vec<String> = problems.iter().map(|problem| problem.text(prefix)).collect();
    texts.join("; ")
}
