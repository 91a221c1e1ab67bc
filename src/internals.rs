//! Not part of the interface: what this project's own tests, benchmarks and fuzz targets use of the parts.

pub mod ack {
    pub use crate::ack::{Ledger, Ticket};
}
pub mod change {
    pub use crate::change::{
        ChangeContext, ChangeEvents, ChangeRecords, ChangeTable, RowChange, SkippedHalves, Snapshot,
    };
}
#[cfg(feature = "io")]
pub mod cli {
    pub use crate::cli::{relay_parts, run_with};
}
#[cfg(feature = "io")]
pub mod config {
    pub use crate::config::Sources;
}
pub mod connect {
    pub use crate::connect::{Field, Kind, NameAdjustment, Schema, TopicNaming, Value};
    pub mod column {
        pub use crate::connect::column::{
            ColumnCodec, ColumnDescription, ColumnOptions, ColumnRules, TypeKind,
        };
    }
    pub mod converter {
        pub use crate::connect::converter::{
            ConvertError, Converter, Converters, Destination, JsonConverter,
        };
        pub mod registered {
            pub use crate::connect::converter::registered::{Registration, SchemaId, SchemaIds};
        }
    }
}
pub mod error {
    pub use crate::error::{Diagnose, Exit, report};
}
#[cfg(feature = "io")]
pub mod kafka {
    pub use crate::kafka::{Options, StateTopic, Stored, partition_of};
}
pub mod outbox {
    pub use crate::outbox::{
        Encoder, EventContext, EventRouter, EventRouterOptions, MessageOutbox, MessagePrefixes, OutboxTable,
        RouteContext, RouteError, check_topic_name,
    };
}
pub mod pgoutput {
    pub use crate::pgoutput::{
        Column, ColumnValue, Message, OldTuple, Relation, RelationCache, ReplicaIdentity, Tuple, decode,
    };
}
#[cfg(feature = "io")]
pub mod postgres {
    pub use crate::postgres::{Connection, ReplicationStream, ServerOptions, TlsOptions, TlsSetup};
}
#[cfg(feature = "io")]
pub mod relay {
    pub use crate::relay::{Control, Error, Relay, Target};
}
pub mod replication {
    pub use crate::replication::{
        CreateSlot, Feedback, ReplicationMessage, SlotKind, StandbyStatusUpdate, StartReplication, decode,
    };
}
pub mod secret {
    pub use crate::secret::Secret;
}
pub mod source_offset {
    pub use crate::source_offset::{MessageType, OffsetKey, OffsetMap, SentBefore, SourceOffset};
}
#[cfg(feature = "io")]
pub mod telemetry {
    pub use crate::telemetry::{ConfigInfo, Limits, Metrics, Phase, Status};
}
#[cfg(feature = "demo")]
pub mod throwaway {
    pub use crate::throwaway::{
        Authentication, Certificate, Options, Release, StopMode, ThrowawayPostgres, unused_port,
    };
}
pub mod transaction {
    pub use crate::transaction::Assembler;
}
pub mod wal {
    pub use crate::wal::{Lsn, Oid, PgTimestamp, Xid};
}
pub mod wire {
    pub use crate::wire::{BackendMessage, Frame, READ_BYTES, ReceiveBuffer};
}
