use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, Span};
use prost::Message as _;

/// A collector of OpenTelemetry, as far as HTTP and traces go. It ends with the test process.
#[derive(Debug)]
pub(crate) struct Collector {
    port: u16,
    taken: Arc<Mutex<Taken>>,
}

#[derive(Debug, Default)]
struct Taken {
    heads: Vec<String>,
    spans: Vec<ResourceSpans>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::answering(ExportTraceServiceResponse::default())
    }

    /// Starts a collector that refuses a span of each request and reports the refusal.
    pub(crate) fn start_refusing(reason: &str) -> Self {
        let partial = ExportTracePartialSuccess { rejected_spans: 1, error_message: reason.to_owned() };
        Self::answering(ExportTraceServiceResponse { partial_success: Some(partial) })
    }

    fn answering(answer: ExportTraceServiceResponse) -> Self {
        let answer = answer.encode_to_vec();
        Self::serve(move |mut stream, taken| {
            let (head, body) = request(&stream);
            let request = ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
            let mut taken = taken.lock().unwrap();
            taken.heads.push(head);
            taken.spans.extend(request.resource_spans);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf";
            write!(stream, "{head}\r\nContent-Length: {}\r\n\r\n", answer.len()).unwrap();
            stream.write_all(&answer).unwrap();
        })
    }

    /// Starts a collector that accepts connections and never answers.
    pub(crate) fn start_silent() -> Self {
        let held = Mutex::new(Vec::new());
        Self::serve(move |stream, _| held.lock().unwrap().push(stream))
    }

    fn serve(answer: impl Fn(TcpStream, &Mutex<Taken>) + Send + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let (port, taken) = (listener.local_addr().unwrap().port(), Arc::<Mutex<Taken>>::default());
        let shared = Arc::clone(&taken);
        thread::spawn(move || listener.incoming().for_each(|stream| answer(stream.unwrap(), &shared)));
        Self { port, taken }
    }

    /// Returns the value of `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Returns the request lines and headers.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.taken.lock().unwrap().heads.clone()
    }

    /// Returns the attributes of the senders' resources.
    pub(crate) fn resources(&self) -> Vec<Vec<(String, String)>> {
        let taken = self.taken.lock().unwrap();
        let resources = taken.spans.iter().filter_map(|spans| spans.resource.as_ref());
        resources
            .map(|resource| {
                resource
                    .attributes
                    .iter()
                    .map(|it| (it.key.clone(), shown(it.value.as_ref().and_then(|it| it.value.as_ref()))))
                    .collect()
            })
            .collect()
    }

    pub(crate) fn spans(&self) -> Vec<Span> {
        let taken = self.taken.lock().unwrap();
        taken.spans.iter().flat_map(|it| &it.scope_spans).flat_map(|it| it.spans.clone()).collect()
    }

    /// Returns the span of this name in this trace.
    pub(crate) fn span(&self, name: &str, trace: &str) -> Option<Span> {
        self.spans().into_iter().find(|span| span.name == name && hex(&span.trace_id) == trace)
    }
}

/// Returns an id in the form of `traceparent`.
pub(crate) fn hex(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns an attribute of a span as text.
pub(crate) fn attribute(span: &Span, name: &str) -> Option<String> {
    let found = span.attributes.iter().find(|attribute| attribute.key == name)?;
    Some(shown(found.value.as_ref().and_then(|value| value.value.as_ref())))
}

fn shown(value: Option<&Value>) -> String {
    match value {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn request(stream: &TcpStream) -> (String, Vec<u8>) {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(reader.read_line(&mut head).unwrap() > 0, "half a request: {head}");
    }
    let length =
        head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).unwrap();
    (head, body)
}
