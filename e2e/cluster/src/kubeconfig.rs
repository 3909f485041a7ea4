//! Kubeconfig files, and clients from them.

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::pki::Identity;

/// How a client shows who it is.
pub enum Credentials<'a> {
    /// By a client certificate.
    Certificate(&'a Identity),
    /// By a bearer token.
    Token(&'a str),
}

/// Renders a kubeconfig with everything inlined, so that the file can be moved.
///
/// # Errors
/// When the result cannot be written as YAML.
pub fn render(server: &str, authority: &str, credentials: &Credentials<'_>) -> Result<String> {
    let user = match credentials {
        Credentials::Certificate(identity) => json!({
            "client-certificate-data": base64(identity.certificate.as_bytes()),
            "client-key-data": base64(identity.key.as_bytes()),
        }),
        Credentials::Token(token) => json!({ "token": token }),
    };
    let config: Value = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "cluster",
            "cluster": { "server": server, "certificate-authority-data": base64(authority.as_bytes()) },
        }],
        "users": [{ "name": "user", "user": user }],
        "contexts": [{ "name": "context", "context": { "cluster": "cluster", "user": "user" } }],
        "current-context": "context",
    });
    serde_saphyr::to_string(&config).context("render a kubeconfig")
}

/// A client configuration from a rendered kubeconfig, without kube's own retries: tests count requests.
///
/// # Errors
/// When the text is no kubeconfig.
pub async fn config(text: &str) -> Result<Config> {
    let parsed = Kubeconfig::from_yaml(text).context("read a kubeconfig")?;
    let mut config =
        Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default()).await.context("use a kubeconfig")?;
    config.default_retry = false;
    Ok(config)
}

/// A client from a rendered kubeconfig.
///
/// # Errors
/// When the text is no kubeconfig.
pub async fn client(text: &str) -> Result<Client> {
    Client::try_from(config(text).await?).context("make a client")
}

/// Bytes as a kubeconfig holds them.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_rendered_kubeconfig_reads_back() {
        let text = render("https://127.0.0.1:1", "ca", &Credentials::Token("secret")).unwrap();
        let config = Kubeconfig::from_yaml(&text).unwrap();
        let cluster = config.clusters[0].cluster.as_ref().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://127.0.0.1:1"));
        assert_eq!(cluster.certificate_authority_data.as_deref(), Some("Y2E="));
    }
}
