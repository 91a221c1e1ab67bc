use std::io;

use crate::cli::run::assemble::AssembleError;
use crate::config::ConfigError;
use crate::error::{Class, Diagnose};

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
    fn class(&self) -> Class {
        match self {
            Self::Assemble(error) => error.class(),
            Self::Config(error) => error.class(),
            Self::Folder { .. } => Class::Definite,
        }
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::Assemble(error) => error.cure(),
            Self::Config(error) => error.cure(),
            Self::Folder { .. } => Some("--into a new folder, in one that can be written".to_owned()),
        }
    }
}
