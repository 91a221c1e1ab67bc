use std::io;
use std::net::SocketAddr;

use crate::error::{Class, Diagnose};

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
    fn class(&self) -> Class {
        Class::Definite
    }

    fn cure(&self) -> Option<String> {
        match self {
            Self::Http { source, .. } if source.kind() == io::ErrorKind::AddrInUse => {
                Some("give --http another port, or stop what listens at this one".to_owned())
            }
            Self::Http { .. } | Self::Runtime(_) | Self::Signals(_) => None,
        }
    }
}
