//! Tokens of Microsoft Entra, by the variables of Azure's own libraries.

use std::fs;

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use zeroize::Zeroizing;

use super::endpoint::Endpoint;
use super::error::IdentityError;
use super::variables::Variables;
use crate::credentials::source::Credential;

const AUTHORITY: &str = "https://login.microsoftonline.com";
const INSTANCE: &str = "http://169.254.169.254";
const ENTRA: &str = "Microsoft Entra";

/// An identity of Azure, and the resource that its tokens are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Azure {
    variables: Variables,
    /// The resource, without `/.default`.
    resource: String,
}

/// The proof of the identity.
enum Proof<'a> {
    /// An application's secret, or the file with the token of a workload.
    Application { tenant: &'a str, client: &'a str, secret: Secret<'a> },
    /// The endpoint of a managed identity in App Service, Functions or Container Apps, with its header.
    Service { url: &'a str, header: &'a str },
    /// The metadata service of a virtual machine.
    Instance,
}

enum Secret<'a> {
    Text(&'a str),
    File(&'a str),
}

impl Azure {
    /// Makes tokens for a database of Azure Database for PostgreSQL.
    pub(crate) fn postgres(variables: Variables, host: &str) -> Self {
        let cloud =
            [".usgovcloudapi.net", ".chinacloudapi.cn"].into_iter().find(|cloud| host.ends_with(cloud));
        let resource = match cloud {
            Some(cloud) => format!("https://ossrdbms-aad.database{cloud}"),
            None => "https://ossrdbms-aad.database.windows.net".to_owned(),
        };
        Self { variables, resource }
    }

    /// Makes tokens for a namespace of Event Hubs, which the first of the brokers' names is.
    pub(crate) fn event_hubs(variables: Variables, servers: &str) -> Self {
        let first = servers.split(',').next().unwrap_or_default().trim();
        let host = first.rsplit_once(':').map_or(first, |(host, _)| host);
        Self { variables, resource: format!("https://{host}") }
    }

    /// Asks for a token: an application's secret, a workload's token, the managed identity.
    pub(super) async fn token(&self) -> Result<Credential, IdentityError> {
        match self.proof()? {
            Proof::Application { tenant, client, secret } => self.ask_entra(tenant, client, secret).await,
            Proof::Service { url, header } => {
                let service = "the managed identity's endpoint";
                self.ask_managed(service, url, "2019-08-01", ("X-IDENTITY-HEADER", header)).await
            }
            Proof::Instance => {
                let base = self.variables.get("AZURE_POD_IDENTITY_AUTHORITY_HOST").unwrap_or(INSTANCE);
                let url = format!("{}/metadata/identity/oauth2/token", base.trim_end_matches('/'));
                self.ask_managed("Azure's metadata service", &url, "2018-02-01", ("Metadata", "true")).await
            }
        }
    }

    /// Returns whose tokens they are, for reports.
    pub(super) fn description(&self) -> String {
        let client =
            self.variables.get("AZURE_CLIENT_ID").map(|client| format!(" {client}")).unwrap_or_default();
        match self.proof() {
            Ok(Proof::Application { .. }) => format!("an Entra token of application{client}"),
            Ok(Proof::Service { .. } | Proof::Instance) | Err(_) => {
                format!("an Entra token of the managed identity{client}")
            }
        }
    }

    fn proof(&self) -> Result<Proof<'_>, IdentityError> {
        const SECRET: &str = "AZURE_CLIENT_SECRET";
        const FILE: &str = "AZURE_FEDERATED_TOKEN_FILE";
        let get = |name| self.variables.get(name);
        let application = |by, secret| {
            let tenant = self.variables.needed("AZURE_TENANT_ID", by)?;
            Ok(Proof::Application { tenant, client: self.variables.needed("AZURE_CLIENT_ID", by)?, secret })
        };
        if let Some(secret) = get(SECRET) {
            return application(SECRET, Secret::Text(secret));
        }
        if let Some(file) = get(FILE) {
            return application(FILE, Secret::File(file));
        }
        let unsupported =
            ["AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_PASSWORD", "IDENTITY_SERVER_THUMBPRINT", "MSI_ENDPOINT"];
        match (
            unsupported.into_iter().find(|name| get(name).is_some()),
            get("IDENTITY_ENDPOINT"),
            get("IDENTITY_HEADER"),
        ) {
            (Some(name), ..) => Err(IdentityError::Unsupported { setting: name.to_owned() }),
            (None, Some(url), Some(header)) => Ok(Proof::Service { url, header }),
            (None, Some(_), None) => Err(IdentityError::Unsupported {
                setting: "IDENTITY_ENDPOINT without IDENTITY_HEADER (Azure Arc)".to_owned(),
            }),
            (None, None, _) => Ok(Proof::Instance),
        }
    }

    /// Asks Entra itself. A file is read each time: Kubernetes replaces it.
    async fn ask_entra(
        &self,
        tenant: &str,
        client: &str,
        secret: Secret<'_>,
    ) -> Result<Credential, IdentityError> {
        let authority = self.variables.get("AZURE_AUTHORITY_HOST").unwrap_or(AUTHORITY).trim_end_matches('/');
        let scheme = if authority.contains("://") { "" } else { "https://" };
        let url = format!("{scheme}{authority}/{tenant}/oauth2/v2.0/token");
        let scope = format!("{}/.default", self.resource);
        let mut form =
            vec![("grant_type", "client_credentials"), ("client_id", client), ("scope", scope.as_str())];
        let token;
        match secret {
            Secret::Text(secret) => form.push(("client_secret", secret)),
            Secret::File(path) => {
                let read = fs::read_to_string(path).map(Zeroizing::new);
                token = read.map_err(|source| IdentityError::File { path: path.to_owned(), source })?;
                form.push((
                    "client_assertion_type",
                    "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
                ));
                form.push(("client_assertion", token.trim()));
            }
        }
        Endpoint { service: ENTRA, url: &url }.post(&form, &[]).await
    }

    async fn ask_managed(
        &self,
        service: &'static str,
        url: &str,
        version: &str,
        header: (&str, &str),
    ) -> Result<Credential, IdentityError> {
        let encoded = |text| utf8_percent_encode(text, NON_ALPHANUMERIC);
        let client = self.variables.get("AZURE_CLIENT_ID");
        let client = client.map(|client| format!("&client_id={}", encoded(client))).unwrap_or_default();
        let query = format!("api-version={version}&resource={}{client}", encoded(&self.resource));
        let joint = if url.contains('?') { '&' } else { '?' };
        Endpoint { service, url: &format!("{url}{joint}{query}") }.get(&[header]).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::chain;
    use crate::http_client::test_server::{answer, serve};

    const TOKEN: &str =
        r#"{"access_token":"t","expires_in":"3599","expires_on":"4102444800","token_type":"Bearer"}"#;
    const HOST: &str = "orders.postgres.database.azure.com";

    /// Asks with variables, in which `URL` is the address of a server that answers so.
    fn ask(status: &str, body: &str, variables: &[(&str, &str)]) -> (Result<Credential, String>, String) {
        let (port, serving) = serve(&answer(status, body), None);
        let url = format!("http://127.0.0.1:{port}");
        let given = variables.iter().map(|(name, value)| ((*name).to_owned(), value.replace("URL", &url)));
        let token = token(&Azure::postgres(Variables::of(given), HOST));
        (token, serving.join().unwrap())
    }

    fn token(azure: &Azure) -> Result<Credential, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(azure.token()).map_err(|error| chain(&error))
    }

    fn application(more: (&'static str, &'static str)) -> [(&'static str, &'static str); 4] {
        [("AZURE_TENANT_ID", "tenant"), ("AZURE_CLIENT_ID", "client"), ("AZURE_AUTHORITY_HOST", "URL/"), more]
    }

    #[test]
    fn an_application_proves_itself_by_its_secret() {
        let (token, asked) = ask("200 OK", TOKEN, &application(("AZURE_CLIENT_SECRET", "can&ary")));
        let token = token.unwrap();
        assert_eq!(token.value.expose(), "t");
        assert_eq!(token.expires_at, crate::credentials::answer::instant("2100-01-01T00:00:00Z"));
        assert!(asked.starts_with("POST /tenant/oauth2/v2.0/token HTTP/1.1\r\n"), "{asked}");
        let expected = "grant_type=client_credentials&client_id=client&scope=https%3A%2F%2Fossrdbms-aad.database.windows.net%2F.default\
                        &client_secret=can%26ary";
        assert!(asked.ends_with(expected), "{asked}");
        let refusal = r#"{"error":"invalid_client","error_description":"AADSTS7000215: Invalid client secret provided.\r\nTrace ID: 1"}"#;
        let (token, _) = ask("401 Unauthorized", refusal, &application(("AZURE_CLIENT_SECRET", "canary")));
        let told = token.unwrap_err();
        assert!(
            told.contains(
                "answers 401: invalid_client: AADSTS7000215: Invalid client secret provided. Trace ID"
            ),
            "{told}"
        );
        assert!(!told.contains("canary"), "{told}");
    }

    #[test]
    fn a_workload_proves_itself_by_the_token_in_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        fs::write(&file, "jwt\n").unwrap();
        let file = file.display().to_string();
        let variables =
            [&application(("AZURE_FEDERATED_TOKEN_FILE", ""))[..3], &[("AZURE_FEDERATED_TOKEN_FILE", &file)]]
                .concat();
        let (token, asked) = ask("200 OK", TOKEN, &variables);
        assert_eq!(token.unwrap().value.expose(), "t");
        let expected = "&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type%3Ajwt-bearer&client_assertion=jwt";
        assert!(asked.ends_with(expected), "{asked}");
    }

    #[test]
    fn a_managed_identity_is_asked_of_its_endpoint_or_of_the_machine() {
        let service = [
            ("IDENTITY_ENDPOINT", "URL/msi/token?x=1"),
            ("IDENTITY_HEADER", "canary"),
            ("AZURE_CLIENT_ID", "id-1"),
        ];
        let (token, asked) = ask("200 OK", TOKEN, &service);
        assert_eq!(token.unwrap().value.expose(), "t");
        assert!(asked.starts_with("GET /msi/token?x=1&api-version=2019-08-01&resource="), "{asked}");
        assert!(asked.contains("&client_id=id%2D1 HTTP/1.1"), "{asked}");
        assert!(asked.to_lowercase().contains("x-identity-header: canary\r\n"), "{asked}");
        let (token, asked) = ask("200 OK", TOKEN, &[("AZURE_POD_IDENTITY_AUTHORITY_HOST", "URL")]);
        assert_eq!(token.unwrap().value.expose(), "t");
        let expected = "GET /metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fossrdbms%2Daad%2Edatabase%2Ewindows%2Enet ";
        assert!(asked.starts_with(expected), "{asked}");
        assert!(asked.to_lowercase().contains("metadata: true\r\n"), "{asked}");
        let refusal = r#"{"error":"invalid_request","error_description":"Identity not found"}"#;
        let (token, _) = ask("400 Bad Request", refusal, &[("AZURE_POD_IDENTITY_AUTHORITY_HOST", "URL")]);
        assert!(token.unwrap_err().ends_with("answers 400: invalid_request: Identity not found"));
    }

    #[test]
    fn what_is_missing_or_cannot_be_done_is_named() {
        for (variables, expected) in [
            (&[("AZURE_CLIENT_SECRET", "canary")][..], "AZURE_CLIENT_SECRET needs AZURE_TENANT_ID too"),
            (
                &[("AZURE_FEDERATED_TOKEN_FILE", "/nowhere"), ("AZURE_TENANT_ID", "t")],
                "AZURE_FEDERATED_TOKEN_FILE needs AZURE_CLIENT_ID too",
            ),
            (&[("AZURE_CLIENT_CERTIFICATE_PATH", "/c")], "AZURE_CLIENT_CERTIFICATE_PATH is not supported"),
            (
                &[("IDENTITY_ENDPOINT", "http://h")],
                "IDENTITY_ENDPOINT without IDENTITY_HEADER (Azure Arc) is not supported",
            ),
        ] {
            let given = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let told = token(&Azure::postgres(Variables::of(given), HOST)).unwrap_err();
            assert_eq!(told, expected);
        }
        let missing = [
            ("AZURE_CLIENT_ID", "c"),
            ("AZURE_TENANT_ID", "t"),
            ("AZURE_FEDERATED_TOKEN_FILE", "/nowhere/token"),
        ];
        let given = missing.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let told = token(&Azure::postgres(Variables::of(given), HOST)).unwrap_err();
        assert!(told.starts_with("/nowhere/token cannot be read"), "{told}");
    }

    #[test]
    fn the_resource_is_that_of_the_server() {
        let none = || Variables::of([]);
        for (host, resource) in [
            (HOST, "https://ossrdbms-aad.database.windows.net"),
            ("db.internal", "https://ossrdbms-aad.database.windows.net"),
            ("o.postgres.database.usgovcloudapi.net", "https://ossrdbms-aad.database.usgovcloudapi.net"),
            ("o.postgres.database.chinacloudapi.cn", "https://ossrdbms-aad.database.chinacloudapi.cn"),
        ] {
            assert_eq!(Azure::postgres(none(), host).resource, resource);
        }
        let hubs = Azure::event_hubs(none(), "orders.servicebus.windows.net:9093");
        assert_eq!(hubs.resource, "https://orders.servicebus.windows.net");
    }
}
