/// A mistake that a relay like this could make, built into the driver, the client model or the way the core is called. The
/// simulation must find each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bug {
    /// Confirms what was received.
    ConfirmsOnReceive,
    /// A keepalive is confirmed although transactions before it are on their way.
    ConfirmsKeepalives,
    /// The latest transaction that is wholly acknowledged is confirmed, whatever is before it.
    ConfirmsTheLatest,
    /// The transaction behind the acknowledged ones is confirmed with them.
    ConfirmsTheNext,
    /// A row whose LSN is not beyond the last row's is taken for a repeat.
    RowLsnIsIdentity,
    /// A delete is passed by.
    PassesDeletes,
    /// Looks for a change event by its contents, which include its time.
    ContentsAreIdentity,
    /// The first row of a new connection is taken for a repeat.
    SkipsFirstRow,
    /// The client gives records up after a while, and the relay begins a new session over it.
    GivesUp,
    /// The client has ten requests on their way, and brokers that do not know a repeat.
    NotIdempotent,
    /// A failed report counts as an acknowledgement.
    FailureIsSuccess,
    /// A table that is described again keeps its first description.
    StaleRelation,
    /// Ignores the notice by which the server reports that it streams without the publication.
    IgnoresNotice,
    /// Counts the position in the old history after a failover.
    OldHistoryCounts,
    /// Decides by LSNs alone what was sent where the history went back on the same timeline.
    BelievesLsns,
    /// A report of success is believed without an offset, and with an old one.
    BelievesReports,
    /// A new session begins while records of the last one are on their way.
    DoesNotSettle,
    /// Waits for records in flight although the producer has failed and never reports them.
    WaitsForEver,
    /// The first record of a partition does not travel alone.
    FirstHasCompany,
    /// A refused record does not stop the client.
    NotGapless,
    /// Mistakes what a producer refuses because a record before it has failed for a failure of its own.
    StateIsCause,
    /// Sends everything unconfirmed again after a broken connection, acknowledged or not.
    ForgetsSessions,
    /// A clean stop does not wait for what is on its way.
    DoesNotDrain,
    /// A relay that drains asks to be woken at a moment that is over.
    WaitsForThePast,
    /// A pause forgets what is on its way.
    PauseForgets,
    /// A position counts as kept as soon as it is handed over.
    ConfirmsBeforeKept,
    /// Continues without positions when the permission to write them is revoked.
    GoesOnWithoutRight,
    /// A value of `outboxd.position.accept` is believed as long as it is in the configuration.
    AcceptsTwice,
    /// A start does not compare the slot with the position.
    DoesNotCompare,
    /// A slot that was moved between the query and the start of the stream is not judged again.
    IgnoresMove,
    /// A start creates a slot that is missing without a look at the position.
    CreatesAtOnce,
    /// A session that Kafka has failed is given up at once, without a wait for what is acknowledged and for the cause.
    HangsUpAtOnce,
    /// Does not check which epochs there were meanwhile when a process continues.
    ForgetsEpochs,
    /// A start believes the last position that was written, also if it is that of an earlier session.
    BelievesLastPosition,
    /// Writes the state of a Kafka transaction in the next one.
    StateBehind,
    /// A producer is used again after a commit of which nothing is known.
    ReusesProducer,
    /// A producer is used again although a commit of it may arrive a second time.
    TrustsRetriedCommits,
    /// Begins the stream at the state's place after a failover.
    StartsAtState,
    /// A start does not fence its predecessor.
    DoesNotFence,
    /// A start reads a state that is not committed.
    ReadsUncommitted,
    /// A commit is taken for done when the coordinator has promised it.
    ConfirmsPromises,
    /// A start does not wait for what is left open in partitions.
    WritesBehindLeftovers,
    /// Everything up to the greatest position in a topic is taken for written.
    TailOfTopic,
    /// Everything up to the greatest position in a partition is taken for written, of what was sent there.
    TailOfPartition,
    /// The same, of what would be sent there now: the partitions may be others than they were.
    TailOfPartitionNow,
    /// Captures a relation by its name, or by that of the table that it is a partition of at present, and
    /// silently skips what does not match.
    CapturesByName,
    /// Skips a captured relation that the router cannot use, and counts it.
    SkipsUnusable,
    /// A start does not know what was captured before.
    ForgetsIdentities,
    /// Identifies the event of a record by the position alone.
    PositionIsIdentity,
    /// An event of which one record is in Kafka counts as sent, with all its records.
    SkipsRestOfEvent,
}

/// Runs in which a bug shows. Everything else that happens makes that rare.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shows {
    /// A commit goes wrong at the brokers.
    AtCommits,
    /// Runs in which a copy of the data is restored, which no position shows.
    AfterCopies,
    /// Relays that keep their positions follow each other.
    AtTakeovers,
    /// The same, and tables are altered.
    AfterAlterations,
}

impl Bug {
    /// Returns the runs in which it shows, unless it shows everywhere.
    pub(super) const fn shows(self) -> Option<Shows> {
        match self {
            Self::TrustsRetriedCommits | Self::ConfirmsPromises | Self::WritesBehindLeftovers => {
                Some(Shows::AtCommits)
            }
            Self::BelievesLsns | Self::PositionIsIdentity => Some(Shows::AfterCopies),
            Self::ForgetsEpochs | Self::BelievesLastPosition => Some(Shows::AtTakeovers),
            Self::ForgetsIdentities => Some(Shows::AfterAlterations),
            _ => None,
        }
    }
}
