//! Errors of logical messages.

use crate::outbox::{RouteError, TopicProblem};
use connect_data::converter::ConvertError;

/// A logical message that has no event. The texts name the problem, never the content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The content is not JSON.
    #[error("its content is not JSON")]
    NotJson,
    /// The content is JSON, but no object.
    #[error("its content is not a JSON object")]
    NotObject,
    /// No Connect schema describes the content.
    #[error("its content has no schema: an array of different things, or a field without a name")]
    Undescribable,
    /// As a structure the content would be much larger than as text.
    #[error(
        "its content would be many times larger as a structure: the objects of an array have few members in common, or names are \
         very long"
    )]
    TooLarge,
    /// The content lacks a field.
    #[error("its content has no field \"{field}\" ({option})")]
    Missing {
        /// The option that names the field.
        option: &'static str,
        /// The field.
        field: String,
    },
    /// A field's value is of the wrong kind.
    #[error("field \"{field}\" ({option}) of its content is not {wanted}")]
    Kind {
        /// The option that names the field.
        option: &'static str,
        /// The field.
        field: String,
        /// The required kind.
        wanted: &'static str,
    },
    /// Kafka does not allow the message's topic name.
    #[error("field \"{field}\" (route.by.field) of its content leads to no topic")]
    Topic {
        /// The field.
        field: String,
        /// The cause.
        #[source]
        source: TopicProblem,
    },
    /// The message is a change event, which cannot be made.
    #[error(transparent)]
    Event(Box<RouteError>),
    /// A value cannot be converted.
    #[error("field \"{field}\" of its content cannot be converted ({option})")]
    Convert {
        /// The field.
        field: String,
        /// The option that names the converter.
        option: &'static str,
        /// The cause.
        #[source]
        source: ConvertError,
    },
}

impl MessageError {
    /// Returns the option that names the converter, if a converter rejects a value.
    #[must_use]
    pub const fn converter(&self) -> Option<&'static str> {
        match self {
            Self::Convert { option, .. } => Some(option),
            Self::Event(error) => error.converter(),
            _ => None,
        }
    }
}

impl MessageError {
    /// Returns the class of the transform that failed on the event.
    #[must_use]
    pub fn transform(&self) -> Option<&str> {
        match self {
            Self::Event(error) => error.transform(),
            _ => None,
        }
    }
}

impl MessageError {
    /// Returns the fix, as sentences or as a command that can be copied.
    #[must_use]
    pub fn fix(&self) -> Option<String> {
        let fix = match self {
            Self::Event(error) => return error.fix(),
            Self::Missing { .. } => {
                "write the field to every message of this prefix, or set fields.null.include=true on the decoding \
                 transform if its value may be null"
            }
            Self::Topic { .. } => {
                "write only letters, digits, points, underscores and hyphens to the field, or map its values with \
                 route.topic.regex and route.topic.replacement"
            }
            Self::Convert { .. } => "name another converter, or write another kind of value",
            Self::TooLarge => {
                "write such data as a text that holds JSON, or objects that have the same members; \
                 message.prefix.include.list excludes messages of other programs"
            }
            Self::NotJson | Self::NotObject | Self::Undescribable | Self::Kind { .. } => {
                "write events as JSON objects; message.prefix.include.list excludes messages \
                 of other programs"
            }
        };
        Some(format!(
            "{fix}\nerrors.tolerance=all passes over such messages, and counts and logs them; with \
                      errors.deadletterqueue.topic.name they go there"
        ))
    }
}
