//! Strimzi's `KafkaConnect`: the settings of a Connect worker, its login and its certificates.
//!
//! Certificates and passwords are in Secrets, which only the cluster's API has. They are read as files, from
//! `/run/secrets/NAME/KEY`: where a pod mounts the Secret.

use super::{DocumentError, Member, Node, settings};
use crate::config::source::file::Entry;

/// Folder in which Secrets are mounted, each by its name.
const MOUNTED: &str = "/run/secrets";
const PLAIN: &str = "org.apache.kafka.common.security.plain.PlainLoginModule";
const SCRAM: &str = "org.apache.kafka.common.security.scram.ScramLoginModule";
const TOKENS: &str = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule";
/// Keys of `spec.authentication` that only tune the Java client.
const TUNING: [&str; 10] = [
    "accessTokenIsJwt",
    "connectTimeoutSeconds",
    "disableTlsHostnameVerification",
    "enableMetrics",
    "httpRetries",
    "httpRetryPauseMs",
    "includeAcceptHeader",
    "maxTokenExpirySeconds",
    "readTimeoutSeconds",
    "type",
];

/// Returns the settings of a Connect cluster, as in its worker's file.
pub(super) fn worker(spec: &Node) -> Result<Vec<Entry>, DocumentError> {
    let mut worker = Worker { entries: Vec::new() };
    if let Some(Member { line, value, .. }) = spec.member("bootstrapServers") {
        let member = Member { key: "bootstrap.servers".to_owned(), line: *line, value: value.clone() };
        settings("", &Node::Map(vec![member]), &mut worker.entries)?;
    }
    let tls = spec.member("tls").filter(|member| member.value != Node::Null);
    let authentication = spec.member("authentication").filter(|member| member.value.is_map());
    let has_login = authentication.map_or(Ok(false), |member| worker.authenticate(member))?;
    if let Some(tls) = tls {
        worker.trust(tls)?;
    }
    if let Some(Member { line, .. }) = authentication.or(tls) {
        let protocol = match (tls.is_some(), has_login) {
            (true, true) => "SASL_SSL",
            (true, false) => "SSL",
            (false, true) => "SASL_PLAINTEXT",
            (false, false) => "PLAINTEXT",
        };
        worker.put("producer.security.protocol", protocol, *line);
    }
    settings("", spec.get("config").unwrap_or(&Node::Null), &mut worker.entries)?;
    Ok(worker.entries)
}

struct Worker {
    entries: Vec<Entry>,
}

impl Worker {
    fn put(&mut self, key: &str, value: impl Into<String>, line: Option<usize>) {
        self.entries.push(Entry { key: key.to_owned(), value: value.into(), line });
    }

    /// Adds the authorities that sign the brokers' certificates. Without any, those of the system are trusted.
    fn trust(&mut self, tls: &Member) -> Result<(), DocumentError> {
        let certificates = tls.value.get("trustedCertificates").map(Node::items).unwrap_or_default();
        if certificates.is_empty() {
            return Ok(());
        }
        let files = certificates.iter().map(|certificate| file(certificate, "certificate", tls.line));
        let files: Vec<_> = files.collect::<Result<_, _>>()?;
        let placeholders: Vec<_> = files.iter().map(File::placeholder).collect();
        self.put("producer.ssl.truststore.type", "PEM", tls.line);
        self.put("producer.ssl.truststore.certificates", placeholders.join("\n"), tls.line);
        Ok(())
    }

    /// Adds a login, and returns whether it is one of SASL.
    fn authenticate(&mut self, authentication: &Member) -> Result<bool, DocumentError> {
        let Member { line, value: node, .. } = authentication;
        let kind = node.get("type").and_then(Node::text).unwrap_or_default();
        match kind {
            "tls" => self.certificate(node, *line)?,
            "plain" => self.password(node, "PLAIN", PLAIN, *line)?,
            "scram-sha-256" => self.password(node, "SCRAM-SHA-256", SCRAM, *line)?,
            "scram-sha-512" => self.password(node, "SCRAM-SHA-512", SCRAM, *line)?,
            "oauth" => self.tokens(node, *line)?,
            "custom" => {
                settings("producer.", node.get("config").unwrap_or(&Node::Null), &mut self.entries)?;
                return Ok(node.get("sasl").and_then(Node::text) == Some("true"));
            }
            _ => return Err(refused(*line, format!("its type {kind:?} is not available"))),
        }
        Ok(kind != "tls")
    }

    fn certificate(&mut self, node: &Node, line: Option<usize>) -> Result<(), DocumentError> {
        let pair = node.get("certificateAndKey").unwrap_or(&Node::Null);
        let [certificate, key] = [file(pair, "certificate", line)?, file(pair, "key", line)?];
        self.put("producer.ssl.keystore.type", "PEM", line);
        self.put("producer.ssl.keystore.certificate.chain", certificate.placeholder(), line);
        self.put("producer.ssl.keystore.key", key.placeholder(), line);
        Ok(())
    }

    fn password(
        &mut self,
        node: &Node,
        mechanism: &str,
        module: &str,
        line: Option<usize>,
    ) -> Result<(), DocumentError> {
        let Some(username) = node.get("username").and_then(Node::text) else {
            return Err(refused(line, "it has no username"));
        };
        let password = file(node.get("passwordSecret").unwrap_or(&Node::Null), "password", line)?;
        let options = [("username", username.to_owned()), ("password", password.placeholder())];
        self.put("producer.sasl.mechanism", mechanism, line);
        self.put("producer.sasl.jaas.config", jaas(module, &options), line);
        Ok(())
    }

    /// Adds a login by tokens, in Strimzi's words.
    fn tokens(&mut self, node: &Node, line: Option<usize>) -> Result<(), DocumentError> {
        let mut options = Vec::new();
        for Member { key, line, value } in node.members() {
            let text = value.text().map(str::to_owned);
            match (key.as_str(), text) {
                ("accessTokenLocation", Some(path)) => options.push(("oauth.access.token.location", path)),
                ("accessToken", _) => {
                    options.push(("oauth.access.token.location", file(value, "key", *line)?.path()));
                }
                ("tokenEndpointUri", Some(url)) => options.push(("oauth.token.endpoint.uri", url)),
                ("clientId", Some(id)) => options.push(("oauth.client.id", id)),
                ("clientSecret", _) => {
                    options.push(("oauth.client.secret", file(value, "key", *line)?.placeholder()));
                }
                ("scope", Some(scope)) => options.push(("oauth.scope", scope)),
                ("tlsTrustedCertificates", _) => self.trust_endpoint(value, *line)?,
                (key, _) if TUNING.contains(&key) => {}
                (key, _) => return Err(refused(*line, format!("its {key} is not available"))),
            }
        }
        self.put("producer.sasl.mechanism", "OAUTHBEARER", line);
        self.put("producer.sasl.jaas.config", jaas(TOKENS, &options), line);
        Ok(())
    }

    /// Adds the authority of the endpoint of tokens. The client library reads one file.
    fn trust_endpoint(&mut self, certificates: &Node, line: Option<usize>) -> Result<(), DocumentError> {
        match certificates.items() {
            [] => {}
            [certificate] => {
                self.put("rdkafka.https.ca.location", file(certificate, "certificate", line)?.path(), line);
            }
            [..] => return Err(refused(line, "only one of its tlsTrustedCertificates can be read")),
        }
        Ok(())
    }
}

/// A key of a Secret, as a file.
struct File {
    secret: String,
    key: String,
}

impl File {
    fn path(&self) -> String {
        format!("{MOUNTED}/{}/{}", self.secret, self.key)
    }

    fn placeholder(&self) -> String {
        format!("${{dir:{MOUNTED}/{}:{}}}", self.secret, self.key)
    }
}

/// Returns the file of a reference such as `{secretName: a, certificate: ca.crt}`.
fn file(reference: &Node, key: &str, line: Option<usize>) -> Result<File, DocumentError> {
    let text = |name: &str| reference.get(name).and_then(Node::text).map(str::to_owned);
    match (text("secretName"), text(key)) {
        (Some(secret), Some(key)) => Ok(File { secret, key }),
        (Some(secret), None) if reference.get("pattern").is_some() => {
            let reason = format!("the files of Secret {secret} are chosen by a pattern");
            let fix = "name each with certificate: instead of pattern:, such as certificate: ca.crt";
            Err(DocumentError::new(line, reason, fix))
        }
        _ => Err(refused(line, format!("it does not name a Secret and its {key}"))),
    }
}

fn refused(line: Option<usize>, reason: impl AsRef<str>) -> DocumentError {
    let fix =
        "remove spec.authentication, and give the login as producer.* settings: docs/configuration.md, Kafka";
    DocumentError::new(line, format!("spec.authentication of KafkaConnect: {}", reason.as_ref()), fix)
}

/// Returns the line of a login module.
fn jaas(module: &str, options: &[(&str, String)]) -> String {
    let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
    let options: String =
        options.iter().map(|(name, value)| format!(" {name}=\"{}\"", quoted(value))).collect();
    format!("{module} required{options};")
}
