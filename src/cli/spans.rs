use crate::config::{Draft, Sources};
use crate::otlp;
use crate::trace::{Seed, Tracer};

/// What makes spans, and what exports them; neither unless they are asked for.
#[derive(Default)]
pub(super) struct Tracing {
    pub(super) tracer: Option<Tracer>,
    pub(super) exporter: Option<otlp::Exporter>,
}

impl Tracing {
    /// Reads the variables of OpenTelemetry.
    ///
    /// # Errors
    /// When one of them cannot be used.
    pub(super) fn read(draft: &Draft, sources: &Sources) -> Result<Self, otlp::Error> {
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
