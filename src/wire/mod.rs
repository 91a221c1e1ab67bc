//! Primitive reading: a checked big-endian cursor over borrowed bytes, and the framing of backend messages.

mod backend;
mod frame;
mod reader;

pub use backend::BackendMessage;
pub(crate) use backend::{Authentication, ServerError};
pub(crate) use frame::FrameError;
pub use frame::{Frame, READ_BYTES, ReceiveBuffer};
pub(crate) use reader::{DecodeError, Reader, Shortage};
