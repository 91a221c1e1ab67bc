//! Handlers, one for each kind of message.

mod change;
mod insert;
mod logical_message;
mod message_event;
mod not_inserted;
mod transaction;
