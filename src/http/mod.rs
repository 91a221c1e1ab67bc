//! The status port: probes and metrics.
