//! Internal interface of this project's own tests, benchmarks and fuzz targets. Not part of the interface.

pub mod ack {
    pub use crate::ack::{Ledger, Ticket};
}
#[cfg(feature = "io")]
pub mod cli {
    pub use crate::cli::{relay_parts, run_with};
}
#[cfg(feature = "io")]
pub mod config {
    pub use crate::config::Sources;
}
#[cfg(feature = "io")]
pub mod credentials {
    pub use crate::credentials::Source;
}
pub mod error {
    pub use crate::error::{Diagnose, Exit, report};
}
#[cfg(feature = "io")]
pub mod kafka {
    pub use crate::kafka::{Options, StateTopic, Stored, partition_of};
}
#[cfg(feature = "io")]
pub mod postgres {
    pub use crate::postgres::{Connection, ReplicationStream, ServerOptions, TlsOptions, TlsSetup};
}
#[cfg(feature = "io")]
pub mod relay {
    pub use crate::relay::{Control, Error, Relay, Target};
}
pub mod secret {
    pub use crate::secret::Secret;
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
