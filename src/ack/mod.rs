//! The acknowledgement ledger: which LSN may be confirmed.
