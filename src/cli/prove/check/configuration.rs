//! Checks of the configuration.

use super::codes;
use super::report::Check;
use crate::cli::run::assemble::AssembleError;
use crate::config::{Notice, NoticeKind, Problem};
use crate::error::causes;

/// Returns a failure for each error.
pub(super) fn mistakes(error: &AssembleError) -> Vec<Check> {
    match error {
        AssembleError::Config(error) => error.problems().map(mistake).collect(),
        other => vec![Check::error(codes::CONFIGURATION, other)],
    }
}

fn mistake(problem: &Problem) -> Check {
    let because: Vec<_> = causes(problem).map(|cause| format!("because: {cause}")).collect();
    Check {
        detail: (!because.is_empty()).then(|| because.join("\n")),
        fix: problem.fix(),
        ..Check::failure(codes::CONFIGURATION, problem.to_string())
    }
}

/// Returns the checks of a configuration without errors, with its notices.
pub(super) fn valid(notices: &[Notice]) -> Vec<Check> {
    let notices = notices.iter().map(|notice| {
        let code = match notice.kind {
            NoticeKind::Default | NoticeKind::Assumption => codes::ASSUMED,
            NoticeKind::Ignored => codes::NOT_USED,
        };
        Check::note(code, notice.to_string())
    });
    std::iter::once(Check::ok(codes::CONFIGURATION, "the configuration is valid")).chain(notices).collect()
}
