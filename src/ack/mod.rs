//! The acknowledgement ledger: which LSN may be confirmed.

mod error;
mod ledger;
mod window;

pub use error::LedgerError;
pub use ledger::{Ledger, Ticket};
pub use window::Window;
