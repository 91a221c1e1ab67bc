//! Tracer and exporter of spans.

use crate::config::{Draft, Sources};
use crate::otlp;
use crate::trace::{Seed, Tracer};

/// Tracer and exporter of spans; neither unless they are configured.
#[derive(Default)]
pub(in crate::cli) struct Tracing {
    pub(in crate::cli) tracer: Option<Tracer>,
    pub(in crate::cli) exporter: Option<otlp::Exporter>,
}

impl Tracing {
    /// Reads the variables of OpenTelemetry.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub(in crate::cli) fn read(draft: &Draft, sources: &Sources) -> Result<Self, otlp::Error> {
        if !draft.config().tracing {
            return Ok(Self::default());
        }
        let options = otlp::Options::read(&sources.environment)?;
        let sampler = options.as_ref().map(|options| options.sampler).unwrap_or_default();
        let exporter = options.map(otlp::Exporter::new).transpose()?;
        let seed = Seed(uuid::Uuid::now_v7().into_bytes());
        let tracer = Tracer::new(sampler, seed, exporter.as_ref().map(otlp::Exporter::log));
        Ok(Self { tracer: Some(tracer), exporter })
    }
}
