use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use outboxd::internals::throwaway::unused_port;

use super::acl::{self, Operation, Resource};
use super::cache::run;
use super::certificate::Authority;
use super::kafka::Kafka;
use super::kafka_home::{java, tools_home};
use super::signed_tokens::{AUDIENCE, KeySet};

/// User that may log in.
pub(crate) const USER: &str = "relay";

/// Password of that user on the shared broker, for each mechanism: with characters that a configuration must escape, and a word that no
/// output may have.
pub(crate) const PASSWORD: &str = "p=a canarysaslpassword";

/// Time after which the shared broker wants a password again, on `Door::Sasl` with SCRAM-SHA-512.
const REAUTH_MS: u32 = 5000;

static SECURE: LazyLock<Secure> = LazyLock::new(Secure::start);

/// Returns the broker with locks that the tests of this process share.
pub(crate) fn secure() -> &'static Secure {
    &SECURE
}

/// A broker that knows every login, and the two that it trusts.
#[derive(Debug)]
pub(crate) struct Secure {
    pub(crate) broker: SecureKafka,
    /// Of its certificate, and of those of clients.
    pub(crate) authority: Authority,
    /// The issuer of tokens.
    pub(crate) keys: KeySet,
}

/// A broker that asks who its clients are, on listeners of their own. Tests read from it in plain text.
#[derive(Debug)]
pub(crate) struct SecureKafka {
    pub(crate) kafka: Kafka,
    ports: Ports,
}

#[derive(Debug, Clone, Copy)]
struct Ports {
    tls: u16,
    mutual_tls: u16,
    sasl: u16,
    sasl_tls: u16,
    tokens: u16,
    signed: u16,
}

/// A way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Door {
    /// `SSL`.
    Tls,
    /// `SSL`, with a certificate of the client.
    MutualTls,
    /// `SASL_PLAINTEXT`.
    Sasl,
    /// `SASL_SSL`.
    SaslTls,
    /// `SASL_PLAINTEXT`, with tokens that need no signature.
    Tokens,
    /// `SASL_PLAINTEXT`, with tokens that a key of the broker's set must have signed.
    SignedTokens,
}

impl Secure {
    /// Starts a broker whose certificate names 127.0.0.1 and kafka.test, that validates signed tokens, and that ends connections whose
    /// token has expired.
    fn start() -> Self {
        let (authority, keys) = (Authority::new("ours"), KeySet::new());
        let url = keys.url();
        let lines = format!(
            "listener.name.signed.oauthbearer.sasl.server.callback.handler.class=\
             org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler\n\
             listener.name.signed.oauthbearer.connections.max.reauth.ms=3600000\n\
             listener.name.sasl.scram-sha-512.connections.max.reauth.ms={REAUTH_MS}\n\
             sasl.oauthbearer.jwks.endpoint.url={url}\n\
             sasl.oauthbearer.expected.audience={AUDIENCE}\n"
        );
        // Kafka reads a file only if a property of its virtual machine allows it.
        let allowed = format!("-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}");
        let allowed: &'static str = Box::leak(allowed.into_boxed_str());
        let broker = SecureKafka::launch(&authority, PASSWORD, &lines, Box::leak(Box::new([allowed])));
        broker.set_scram(USER, PASSWORD);
        Self { broker, authority, keys }
    }
}

impl SecureKafka {
    /// Starts a broker without SCRAM, on which no user who logs in has any right yet.
    pub(crate) fn start_strict(authority: &Authority, password: &str) -> Self {
        Self::start_strict_with(authority, password, "")
    }

    /// Starts such a broker with more lines of `server.properties`.
    pub(crate) fn start_strict_with(authority: &Authority, password: &str, more: &str) -> Self {
        let authorizer = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
                          super.users=User:ANONYMOUS\n";
        Self::launch(authority, password, &(authorizer.to_owned() + more), &[])
    }

    /// Gives the user rights on topics that begin so.
    pub(crate) fn allow(&self, prefix: &str, operations: &[Operation]) {
        self.allow_on((Resource::Topic, prefix), operations);
    }

    /// Gives the user rights on any resources with a prefix.
    pub(crate) fn allow_on(&self, what: (Resource, &str), operations: &[Operation]) {
        acl::allow(&self.kafka.bootstrap(), USER, what, operations);
    }

    /// Runs the last line for `kafka-acls.sh` in the output, as the administrator, who needs no login here.
    #[track_caller]
    pub(crate) fn run_printed(&self, said: &str) {
        let (_, rest) = said.rsplit_once("kafka-acls.sh ").unwrap_or_else(|| panic!("no line in {said}"));
        let (_, rest) = rest.split_once(" --add ").unwrap();
        // Without the quotes of a shell.
        let arguments = rest.split([',', ';', '"', '\n']).next().unwrap().replace('\'', "");
        self.kafka.run_tool(&format!(
            "kafka-acls.sh --bootstrap-server {} --add {arguments}",
            self.kafka.bootstrap()
        ));
    }

    /// Takes away one of them.
    pub(crate) fn revoke(&self, prefix: &str, operation: Operation) {
        acl::revoke(&self.kafka.bootstrap(), USER, (Resource::Topic, prefix), operation);
    }

    fn launch(authority: &Authority, password: &str, more: &str, jvm: &'static [&'static str]) -> Self {
        let [plain, tls, mutual_tls, sasl, sasl_tls, tokens, signed] =
            std::array::from_fn(|_| unused_port().unwrap());
        let ports = Ports { tls, mutual_tls, sasl, sasl_tls, tokens, signed };
        let kafka = Kafka::launch(plain, plain, jvm, |folder, controller| {
            write_stores(folder, authority);
            properties(folder, plain, controller, ports, password) + more
        });
        Self { kafka, ports }
    }

    /// Returns the value of `bootstrap.servers`.
    pub(crate) fn bootstrap(&self, door: Door, host: &str) -> String {
        let port = match door {
            Door::Tls => self.ports.tls,
            Door::MutualTls => self.ports.mutual_tls,
            Door::Sasl => self.ports.sasl,
            Door::SaslTls => self.ports.sasl_tls,
            Door::Tokens => self.ports.tokens,
            Door::SignedTokens => self.ports.signed,
        };
        format!("{host}:{port}")
    }

    /// Sets the password of a user, one mechanism at a time: two for one user are refused.
    pub(crate) fn set_scram(&self, user: &str, password: &str) {
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
            let mut command = java(&tools_home());
            command.args([
                "kafka.admin.ConfigCommand",
                "--bootstrap-server",
                &self.kafka.bootstrap(),
                "--alter",
            ]);
            command.args(["--entity-type", "users", "--entity-name", user]);
            command.args(["--add-config", &format!("{mechanism}=[password={password}]")]);
            run("kafka.admin.ConfigCommand", &mut command);
        }
    }
}

fn write_stores(folder: &Path, authority: &Authority) {
    let certificate = authority.issue("kafka.test");
    let store = certificate.key_pem.expose().to_owned() + &certificate.chain_pem;
    fs::write(folder.join("broker.pem"), store).unwrap();
    fs::write(folder.join("clients.pem"), authority.pem()).unwrap();
}

fn properties(folder: &Path, plain: u16, controller: u16, ports: Ports, password: &str) -> String {
    let Ports { tls, mutual_tls, sasl, sasl_tls, tokens, signed } = ports;
    let public = format!(
        "PLAINTEXT://127.0.0.1:{plain},TLS://127.0.0.1:{tls},MUTUAL://127.0.0.1:{mutual_tls},\
         SASL://127.0.0.1:{sasl},SASLTLS://127.0.0.1:{sasl_tls},TOKENS://127.0.0.1:{tokens},\
         SIGNED://127.0.0.1:{signed}"
    );
    let mut text = format!(
        "listeners={public},CONTROLLER://127.0.0.1:{controller}\n\
         advertised.listeners={public}\n\
         listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,TLS:SSL,MUTUAL:SSL,\
         SASL:SASL_PLAINTEXT,SASLTLS:SASL_SSL,TOKENS:SASL_PLAINTEXT,SIGNED:SASL_PLAINTEXT\n\
         sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512\n\
         listener.name.tokens.sasl.enabled.mechanisms=OAUTHBEARER\n\
         listener.name.signed.sasl.enabled.mechanisms=OAUTHBEARER\n\
         ssl.keystore.type=PEM\n\
         ssl.keystore.location={folder}/broker.pem\n\
         ssl.truststore.type=PEM\n\
         ssl.truststore.location={folder}/clients.pem\n\
         listener.name.mutual.ssl.client.auth=required\n",
        folder = folder.display()
    );
    let module = "org.apache.kafka.common.security";
    for listener in ["sasl", "sasltls"] {
        text += &format!(
            "listener.name.{listener}.plain.sasl.jaas.config={module}.plain.PlainLoginModule required \
             user_{USER}=\"{password}\";\n\
             listener.name.{listener}.scram-sha-256.sasl.jaas.config={module}.scram.ScramLoginModule required;\n\
             listener.name.{listener}.scram-sha-512.sasl.jaas.config={module}.scram.ScramLoginModule required;\n"
        );
    }
    for listener in ["tokens", "signed"] {
        text += &format!(
            "listener.name.{listener}.oauthbearer.sasl.jaas.config={module}.oauthbearer.OAuthBearerLoginModule \
             required;\n"
        );
    }
    text
}
