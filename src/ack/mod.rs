//! The acknowledgement ledger: which LSN may be confirmed.

mod ledger;
mod window;

pub use ledger::{Ledger, LedgerError, Ticket};
pub use window::Window;
