//! Basic decoding: a checked big-endian cursor over borrowed bytes, and the framing of backend messages.

mod backend;
mod frame;
mod reader;

pub use backend::{Authentication, BackendMessage, ServerError};
pub use frame::{Frame, FrameError, READ_BYTES, ReceiveBuffer};
pub use reader::{DecodeError, Reader, Shortage};
