/// What a session is to do with its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Wanted {
    /// Send what comes.
    Stream,
    /// End, so that nothing comes twice.
    Drain,
}

/// How far the stream is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Reading {
    /// On and on.
    On,
    /// It drains: to the end of the open transaction, so that it is not repeated.
    ToCommit,
    /// No further. What was begun cannot be taken back: another session goes on.
    Off,
}

impl Reading {
    /// A row that waits for `brief` things only does not hold up a drain; a registry or a broker that does not answer must
    /// not.
    pub(super) const fn next(self, wanted: Wanted, in_transaction: bool, brief: bool) -> Self {
        match (self, wanted) {
            (Self::On, Wanted::Stream) => Self::On,
            (Self::On | Self::ToCommit, _) if in_transaction && brief => Self::ToCommit,
            (Self::On | Self::ToCommit | Self::Off, _) => Self::Off,
        }
    }
}
