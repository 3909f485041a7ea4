//! Kubeconfigs of service accounts: our programs get exactly the rights of `config/rbac`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::Client;
use kube::api::{Api, PostParams};
use sandbox_cluster::pki::write_private;
use serde_json::{Value, json};

/// The namespace of operator and server.
pub const SYSTEM: &str = "opensandbox-system";
/// The operator's account.
pub const OPERATOR: &str = "opensandbox-controller-manager";
/// The server's account.
pub const SERVER: &str = "opensandbox-server";

const TOKEN_SECONDS: i64 = 12 * 3600;

/// Writes to `to` the kubeconfig `from` with an account's token in the place of its users' credentials.
///
/// # Errors
/// When the account does not exist or a file cannot be read or written.
pub async fn kubeconfig(client: &Client, from: &Path, account: &str, to: &Path) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), SYSTEM);
    let wanted = TokenRequest {
        spec: Some(TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() }),
        ..TokenRequest::default()
    };
    let answer = accounts
        .create_token_request(account, &PostParams::default(), &wanted)
        .await
        .with_context(|| format!("ask for a token of the service account {SYSTEM}/{account}"))?;
    let token = answer.status.context("the API server answered no token")?.token;
    let text = fs::read_to_string(from).with_context(|| format!("read {}", from.display()))?;
    let config = with_token(&text, &token.context("the API server answered an empty token")?)?;
    write_private(to, &config)
}

fn with_token(text: &str, token: &str) -> Result<String> {
    let mut config: Value = serde_saphyr::from_str(text).context("read a kubeconfig")?;
    for user in config["users"].as_array_mut().context("the kubeconfig has no users")? {
        user["user"] = json!({ "token": token });
    }
    serde_saphyr::to_string(&config).context("write a kubeconfig")
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn an_account_s_kubeconfig_keeps_the_cluster_and_none_of_the_credentials() {
        let text = "clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {client-key-data: c2VjcmV0}}]";
        let config = with_token(text, "t").unwrap();
        assert!(config.contains("https://127.0.0.1:1"));
        assert!(config.contains("token: t"));
        assert!(!config.contains("c2VjcmV0"));
    }
}
