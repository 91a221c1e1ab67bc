//! Options of the export of spans.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use hyper::header::{HeaderName, HeaderValue};
use percent_encoding::percent_decode_str;

use super::error::Error;
use crate::http_client::Address;
use crate::trace::Sampler;

const PATH: &str = "/v1/traces";
const LOCAL: &str = "http://localhost:4318";
/// Default of `service.name`.
const SERVICE: &str = "outboxd";

/// Destination and limits of spans: the variables of OpenTelemetry's SDKs, with their defaults.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Options {
    /// `OTEL_TRACES_SAMPLER` (parentbased_always_on) with its `_ARG`.
    pub(crate) sampler: Sampler,
    /// `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, or `OTEL_EXPORTER_OTLP_ENDPOINT` (http://localhost:4318) and `/v1/traces`.
    pub(super) endpoint: Address,
    /// `OTEL_EXPORTER_OTLP_HEADERS`
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
    /// `OTEL_EXPORTER_OTLP_TIMEOUT` (10 s): for one request.
    pub(super) timeout: Duration,
    /// `OTEL_EXPORTER_OTLP_CERTIFICATE`: the authorities, instead of the system's.
    pub(super) authorities: Option<PathBuf>,
    /// `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME` (outboxd).
    pub(super) resource: Vec<(String, String)>,
    /// `OTEL_BSP_MAX_QUEUE_SIZE` (2048): spans that wait.
    pub(super) queue_max: usize,
    /// `OTEL_BSP_MAX_EXPORT_BATCH_SIZE` (512): spans in one request.
    pub(super) batch_max: usize,
    /// `OTEL_BSP_SCHEDULE_DELAY` (5 s): how long a span waits for others.
    pub(super) delay: Duration,
    /// `OTEL_BSP_EXPORT_TIMEOUT` (30 s): for how long a batch is tried again.
    pub(super) patience: Duration,
}

impl Options {
    /// Reads them from the environment. None when nothing is exported (`OTEL_TRACES_EXPORTER=none`,
    /// `OTEL_SDK_DISABLED=true`): other variables do not matter then.
    ///
    /// # Errors
    /// When a value is not one that outboxd can work with.
    pub(crate) fn read(environment: &[(String, String)]) -> Result<Option<Self>, Error> {
        let variables = Variables(environment);
        if !exports(&variables)? {
            return Ok(None);
        }
        let millis = |name, default| variables.number(name, default).map(Duration::from_millis);
        let positive = |name, default| variables.positive(name, default).map(Duration::from_millis);
        let timeout = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
        let timeout = timeout.into_iter().find(|name| variables.text(name).is_some());
        let authorities = ["OTEL_EXPORTER_OTLP_TRACES_CERTIFICATE", "OTEL_EXPORTER_OTLP_CERTIFICATE"];
        let authorities = authorities.into_iter().find_map(|name| variables.text(name));
        check_protocol(&variables)?;
        Ok(Some(Self {
            sampler: sampler(&variables)?,
            endpoint: endpoint(&variables)?,
            headers: headers(&variables)?,
            timeout: timeout.map_or(Ok(Duration::from_secs(10)), |name| positive(name, 10_000))?,
            authorities: authorities.map(PathBuf::from),
            resource: resource(&variables),
            queue_max: variables.number("OTEL_BSP_MAX_QUEUE_SIZE", 2_048)?,
            batch_max: variables.number("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", 512)?,
            delay: positive("OTEL_BSP_SCHEDULE_DELAY", 5_000)?,
            patience: millis("OTEL_BSP_EXPORT_TIMEOUT", 30_000)?,
        }))
    }
}

/// The environment. An empty variable counts as unset, as the specification wants it.
struct Variables<'e>(&'e [(String, String)]);

impl<'e> Variables<'e> {
    fn text(&self, name: &str) -> Option<&'e str> {
        let (_, value) = self.0.iter().find(|(known, _)| known == name)?;
        Some(value.trim()).filter(|value| !value.is_empty())
    }

    fn number<T: FromStr>(&self, variable: &'static str, default: T) -> Result<T, Error> {
        let Some(text) = self.text(variable) else { return Ok(default) };
        let reason = "it must be a number that is not too large";
        text.parse().map_err(|_| refused(variable, text, reason, "5000"))
    }

    fn positive(&self, variable: &'static str, default: u64) -> Result<u64, Error> {
        match self.number(variable, default)? {
            0 => Err(refused(variable, "0", "it must be 1 at least", "5000")),
            number => Ok(number),
        }
    }
}

fn refused(variable: &'static str, value: &str, reason: &'static str, instead: &'static str) -> Error {
    Error::Variable { variable, value: value.to_owned(), reason, instead }
}

fn exports(variables: &Variables<'_>) -> Result<bool, Error> {
    if variables.text("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true")) {
        return Ok(false);
    }
    const EXPORTER: &str = "OTEL_TRACES_EXPORTER";
    match variables.text(EXPORTER) {
        None | Some("otlp") => Ok(true),
        Some("none") => Ok(false),
        Some(other) => Err(refused(EXPORTER, other, "outboxd exports by OTLP, or not at all (none)", "otlp")),
    }
}

fn check_protocol(variables: &Variables<'_>) -> Result<(), Error> {
    for variable in ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"] {
        match variables.text(variable) {
            None => {}
            Some("http/protobuf") => return Ok(()),
            Some(other) => {
                return Err(refused(
                    variable,
                    other,
                    "outboxd knows protobuf over HTTP only",
                    "http/protobuf",
                ));
            }
        }
    }
    Ok(())
}

fn sampler(variables: &Variables<'_>) -> Result<Sampler, Error> {
    const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
    let Some(name) = variables.text(SAMPLER) else { return Ok(Sampler::default()) };
    let reason = "outboxd knows always_on, always_off, traceidratio, and these with parentbased_ before; a ratio in \
                  OTEL_TRACES_SAMPLER_ARG is a number from 0 to 1";
    let sampler = Sampler::parse(name, variables.text("OTEL_TRACES_SAMPLER_ARG"));
    sampler.ok_or_else(|| refused(SAMPLER, name, reason, "parentbased_always_on"))
}

fn endpoint(variables: &Variables<'_>) -> Result<Address, Error> {
    const TRACES: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
    const ALL: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let reason = "it must be a URL with http or https";
    let parse = |variable, text| {
        let masked = if text == LOCAL { text } else { "…" };
        Address::parse(text).ok_or_else(|| refused(variable, masked, reason, LOCAL))
    };
    if let Some(text) = variables.text(TRACES) {
        return parse(TRACES, text);
    }
    let address = parse(ALL, variables.text(ALL).unwrap_or(LOCAL))?;
    Ok(Address { path: format!("{}{PATH}", address.path), ..address })
}

/// Parses the headers. Errors contain nothing of a value: it may be a password.
fn headers(variables: &Variables<'_>) -> Result<Vec<(HeaderName, HeaderValue)>, Error> {
    let names = ["OTEL_EXPORTER_OTLP_TRACES_HEADERS", "OTEL_EXPORTER_OTLP_HEADERS"];
    let said = names.into_iter().find_map(|variable| Some((variable, variables.text(variable)?)));
    let Some((variable, text)) = said else { return Ok(Vec::new()) };
    let wrong = |reason| refused(variable, "…", reason, "authorization=Bearer%20TOKEN");
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    let header = |pair: &str| {
        let pair = pair.split_once('=');
        let (name, value) =
            pair.ok_or_else(|| wrong("each header is NAME=VALUE, with commas between them"))?;
        let name = HeaderName::from_bytes(name.trim().as_bytes());
        let name = name.map_err(|_| wrong("the name of a header has letters, digits and dashes"))?;
        let value: Vec<u8> = percent_decode_str(value.trim()).collect();
        let value = HeaderValue::from_bytes(&value);
        let mut value =
            value.map_err(|_| wrong("the value of a header has no line ends or control characters"))?;
        value.set_sensitive(true);
        Ok((name, value))
    };
    pairs.map(header).collect()
}

fn resource(variables: &Variables<'_>) -> Vec<(String, String)> {
    const NAME: &str = "service.name";
    let mut resource: Vec<_> = pairs(variables.text("OTEL_RESOURCE_ATTRIBUTES")).collect();
    let named = resource.iter().position(|(name, _)| name == NAME);
    let named = named.map(|position| resource.remove(position).1);
    let service = variables.text("OTEL_SERVICE_NAME").map(str::to_owned).or(named);
    resource.insert(0, (NAME.to_owned(), service.unwrap_or_else(|| SERVICE.to_owned())));
    resource
}

/// Parses `name=value,…`, with percent signs as in URLs. What has no name is skipped.
fn pairs(text: Option<&str>) -> impl Iterator<Item = (String, String)> {
    let pair = |pair: &str| {
        let (name, value) = pair.split_once('=')?;
        let value = percent_decode_str(value.trim()).decode_utf8().ok()?.into_owned();
        Some((name.trim().to_owned(), value)).filter(|(name, _)| !name.is_empty())
    };
    text.unwrap_or_default().split(',').filter_map(pair)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Options, Error> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let options = Options::read(&variables.iter().map(owned).collect::<Vec<_>>());
        options.map(|options| options.expect("it exports"))
    }

    #[test]
    fn without_variables_the_defaults_of_opentelemetry_apply() {
        let options = read(&[("OTEL_EXPORTER_OTLP_ENDPOINT", " ")]).unwrap();
        assert_eq!(options.endpoint.to_string(), "http://localhost:4318/v1/traces");
        assert_eq!(options.resource, [("service.name".to_owned(), "outboxd".to_owned())]);
        assert!(options.headers.is_empty());
        assert_eq!((options.queue_max, options.batch_max), (2_048, 512));
        assert_eq!(
            [options.timeout, options.delay, options.patience].map(|time| time.as_secs()),
            [10, 5, 30]
        );
    }

    #[test]
    fn a_variable_for_traces_takes_precedence() {
        let options = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318/base/"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20hunter2, x-tenant = a ,"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "7"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,deployment.environment.name=t%2C1"),
            ("OTEL_SERVICE_NAME", "orders-relay"),
        ])
        .unwrap();
        assert_eq!(options.endpoint.to_string(), "http://all:4318/base/v1/traces");
        let headers: Vec<_> =
            options.headers.iter().map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        assert_eq!(headers, [("authorization", "Bearer hunter2"), ("x-tenant", "a")]);
        assert_eq!(options.timeout, Duration::from_millis(7));
        let resource: Vec<_> =
            options.resource.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(resource, [("service.name", "orders-relay"), ("deployment.environment.name", "t,1")]);
        assert!(!format!("{options:?}").contains("hunter2"));
        let traces = read(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://all:4318"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "https://traces/custom"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/protobuf"),
        ]);
        assert_eq!(traces.unwrap().endpoint.to_string(), "https://traces:443/custom");
    }

    #[test]
    fn exporting_can_be_switched_off() {
        for off in [("OTEL_TRACES_EXPORTER", "none"), ("OTEL_SDK_DISABLED", "TRUE")] {
            // What is meant for other programs stops nothing.
            let others = [off, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_BSP_SCHEDULE_DELAY", "soon")];
            let owned = others.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(Options::read(&owned).unwrap(), None, "{off:?}");
        }
    }

    #[test]
    fn what_cannot_work_is_refused_with_what_can() {
        let cases = [
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "http/protobuf"),
            ("OTEL_TRACES_EXPORTER", "zipkin", "otlp"),
            ("OTEL_TRACES_SAMPLER", "jaeger_remote", "parentbased_always_on"),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4318", "http://localhost:4318"),
            ("OTEL_BSP_SCHEDULE_DELAY", "soon", "5000"),
            ("OTEL_BSP_SCHEDULE_DELAY", "0", "5000"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "0", "5000"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "authorization:hunter2", "authorization=Bearer%20TOKEN"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,x tenant=hunter2", "authorization=Bearer%20TOKEN"),
            ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", "x=hunter2%0A", "authorization=Bearer%20TOKEN"),
        ];
        for (variable, value, instead) in cases {
            let error = read(&[(variable, value)]).unwrap_err();
            assert!(
                error.to_string().contains(variable) && !error.to_string().contains("hunter2"),
                "{error}"
            );
            assert_eq!(crate::error::Diagnose::fix(&error), Some(format!("{variable}={instead}")));
        }
    }
}
