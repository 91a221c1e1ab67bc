/// Where the stream stands with a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::relay) enum Reading {
    /// No stop: go on.
    On,
    /// Told to stop: to the end of the open transaction, so that it is not repeated.
    ToCommit,
    /// No further.
    Off,
}

impl Reading {
    /// A row that waits for `brief` things only does not hold up a stop; a registry or a broker that does not answer must
    /// not.
    pub(super) const fn next(self, stopped: bool, in_transaction: bool, brief: bool) -> Self {
        match self {
            Self::On if !stopped => Self::On,
            Self::On | Self::ToCommit if in_transaction && brief => Self::ToCommit,
            Self::On | Self::ToCommit | Self::Off => Self::Off,
        }
    }
}
