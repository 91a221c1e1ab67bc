//! Texts of errors.

use std::error::Error;

/// Returns the error for a component that this build lacks, because it was built without its cargo feature.
pub fn not_built(what: &str, feature: &str) -> String {
    format!(
        "this build has no {what}; the image of outboxd has it, and so has cargo build --release --features {feature}"
    )
}

/// Returns the causes of an error, the nearest first.
pub fn causes<'e>(error: &'e (dyn Error + 'e)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    std::iter::successors(error.source(), |cause: &&'e (dyn Error + 'static)| (*cause).source())
}

/// Returns the error and its causes on one line.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    causes(error).fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}
