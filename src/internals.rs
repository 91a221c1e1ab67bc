//! Internal interface of this project's own tests, benchmarks and fuzz targets. Not part of the interface.

pub mod ack {
    pub use crate::ack::{Ledger, Ticket};
}
pub mod cli {
    pub use crate::cli::{relay_parts, run_with};
}
pub mod config {
    pub use crate::config::Sources;
}
pub mod credentials {
    pub use crate::credentials::Source;
}
pub mod error {
    pub use crate::error::{Diagnose, Exit, report};
}
pub mod kafka {
    pub use crate::kafka::{Options, StateTopic, Stored, partition_of};
}
pub mod postgres {
    pub use crate::postgres::{Connection, ReplicationStream, ServerOptions, TlsOptions, TlsSetup};
}
pub mod relay {
    pub use crate::relay::{Control, Error, Relay, Target};
}
pub mod secret {
    pub use crate::secret::Secret;
}
pub mod telemetry {
    pub use crate::telemetry::{ConfigInfo, Limits, Metrics, Phase, Status};
}
#[cfg(feature = "demo")]
pub mod throwaway {
    pub use crate::throwaway::{
        Authentication, Certificate, Options, Release, StopMode, ThrowawayPostgres, unused_port,
    };
}
