//! Errors of `outboxd debug bundle`.

use std::io;

use crate::cli::run::assemble::AssembleError;
use crate::config::ConfigError;
use crate::error::{Diagnose, Diagnosis, Exit};

/// Reasons why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub(super) enum BundleError {
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error(transparent)]
    Config(Box<ConfigError>),
    #[error("{path} cannot be written")]
    Folder { path: String, source: io::Error },
}

impl Diagnose for BundleError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Assemble(error) => error.diagnosis(),
            Self::Config(error) => error.diagnosis(),
            Self::Folder { .. } => {
                Diagnosis::definite(Exit::Failed).with_fix("--into a new folder, in one that can be written")
            }
        }
    }
}
