//! Errors of the system at a start.

use std::io;
use std::net::SocketAddr;

use crate::error::{Diagnose, Diagnosis, Exit};

/// Reasons of the system why a relay with a valid configuration cannot start.
#[derive(Debug, thiserror::Error)]
pub(super) enum StartError {
    #[error("the relay cannot be started")]
    Runtime(#[source] io::Error),
    #[error("--http {addr} cannot be served")]
    Http { addr: SocketAddr, source: io::Error },
    #[error("signals cannot be caught")]
    Signals(#[source] io::Error),
}

impl Diagnose for StartError {
    fn diagnosis(&self) -> Diagnosis {
        match self {
            Self::Http { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Diagnosis::definite(Exit::Failed)
                    .with_fix("give --http another port, or stop what listens at this one")
            }
            Self::Http { .. } | Self::Runtime(_) | Self::Signals(_) => Diagnosis::definite(Exit::Failed),
        }
    }
}
