//! Addresses of brokers with a protocol, as some providers show them: `SASL_SSL://host:9092`.

use crate::config::read::Reader;
use crate::config::source::settings::Setting;

/// Values of `security.protocol`.
const PROTOCOLS: [&str; 4] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];

/// Returns the addresses without their protocols. Java's client ignores the text before `://`, which may also be the name of a
/// listener. librdkafka reads it as a protocol, and skips an address whose protocol differs from `security.protocol`.
///
/// Reports a protocol that contradicts `security.protocol`: no connection would work as intended.
pub(in crate::config) fn without_protocols(
    reader: &mut Reader<'_>,
    key: &str,
    servers: &str,
    security_protocol: Option<&str>,
) -> String {
    let security_protocol = security_protocol.unwrap_or("PLAINTEXT");
    let said: Vec<_> = servers.split(',').map(|address| split(address.trim())).collect();
    let other = said.iter().filter_map(|(protocol, _)| *protocol).find(|said| {
        let known = PROTOCOLS.iter().any(|known| known.eq_ignore_ascii_case(said));
        known && !said.eq_ignore_ascii_case(security_protocol)
    });
    if let (Some(other), Some(setting)) = (other, reader.settings.get(key)) {
        contradicts(reader, setting, other, security_protocol);
    }
    said.iter().map(|(_, address)| *address).collect::<Vec<_>>().join(",")
}

fn contradicts(reader: &mut Reader<'_>, setting: &Setting, said: &str, security_protocol: &str) {
    let key = reader.dialect.spelled("producer.security.protocol");
    let (said, security_protocol) = (said.to_uppercase(), security_protocol.to_uppercase());
    reader.invalid(
        setting,
        format!(
            "it says {said}, and {key} is {security_protocol}: set {key}={said}, or write the addresses without {said}://"
        ),
    );
}

fn split(address: &str) -> (Option<&str>, &str) {
    match address.split_once("://") {
        Some((protocol, address)) => (Some(protocol), address),
        None => (None, address),
    }
}

#[cfg(test)]
mod tests {
    use crate::config::tests::complete_and;

    #[test]
    fn a_protocol_before_an_address_is_read_as_java_reads_it() {
        let servers = |settings: &[&str]| complete_and(settings).unwrap().kafka.bootstrap_servers;
        let cases: [(&[&str], &str); 4] = [
            (&["bootstrap.servers=plaintext://a:1, b:2"], "a:1,b:2"),
            (
                &[
                    "bootstrap.servers=SASL_SSL://a:1,SASL_SSL://[::1]:2",
                    "producer.security.protocol=SASL_SSL",
                    "producer.sasl.mechanism=OAUTHBEARER",
                    "rdkafka.enable.sasl.oauthbearer.unsecure.jwt=true",
                ],
                "a:1,[::1]:2",
            ),
            // The name of a listener, as in advertised.listeners.
            (&["bootstrap.servers=EXTERNAL://a:1"], "a:1"),
            (&["bootstrap.servers=SSL://a:1", "rdkafka.security.protocol=ssl"], "a:1"),
        ];
        for (settings, expected) in cases {
            assert_eq!(servers(settings), expected, "{settings:?}");
        }
    }
}
