//! Gauges that may be absent.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::{EncodeGaugeValue, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;

/// A gauge that is absent while its value is not known: zero would be a lie, and an alert on it a false one.
#[derive(Debug, Clone, Default)]
pub(super) struct Known<N>(Arc<Mutex<Option<N>>>);

impl<N: Copy> Known<N> {
    pub(super) fn set(&self, value: Option<N>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = value;
    }

    fn get(&self) -> Option<N> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<N: Copy + EncodeGaugeValue> EncodeMetric for Known<N> {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        self.get().map_or(Ok(()), |value| ConstGauge::new(value).encode(encoder))
    }

    fn metric_type(&self) -> MetricType {
        MetricType::Gauge
    }

    fn is_empty(&self) -> bool {
        self.get().is_none()
    }
}
