//! The acknowledgement ledger: which LSN may be confirmed.

mod error;
mod ledger;
mod window;

pub(crate) use error::LedgerError;
pub use ledger::{Ledger, Ticket};
pub(crate) use window::Window;
