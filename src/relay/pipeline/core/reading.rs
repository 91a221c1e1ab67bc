//! The extent to which a session still reads its stream: without end, up to the end of a transaction, or no further.

/// Commanded state of a session's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Wanted {
    /// Send what comes.
    Stream,
    /// End, so that nothing comes twice.
    Drain,
}

/// Extent to which the stream is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Reading {
    /// Without end.
    On,
    /// To the end of the open transaction, so that it is not repeated: the session drains.
    ToCommit,
    /// No further. This cannot be undone: another session continues.
    Off,
}

impl Reading {
    /// Returns the next state. A row that waits only for `brief` needs does not delay a drain; a registry or
    /// a broker that does not respond must not.
    pub(super) const fn next(self, wanted: Wanted, in_transaction: bool, brief: bool) -> Self {
        match (self, wanted) {
            (Self::On, Wanted::Stream) => Self::On,
            (Self::On | Self::ToCommit, _) if in_transaction && brief => Self::ToCommit,
            (Self::On | Self::ToCommit | Self::Off, _) => Self::Off,
        }
    }
}
