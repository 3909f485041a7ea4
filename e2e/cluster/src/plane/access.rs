//! Ways into a plane: clients, kubeconfigs, namespaces, metrics.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use http::Request;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, ObjectMeta, PostParams};
use kube::{Client, ResourceExt};

use super::{Plane, read};
use crate::kubeconfig::{self, Credentials};
use crate::pki::write_private;
use crate::wait::{Probe, until};

const ACCOUNT_LIMIT: Duration = Duration::from_secs(60);
const TOKEN_SECONDS: i64 = 12 * 3600;

impl Plane {
    /// The administrator's kubeconfig file.
    pub fn kubeconfig(&self) -> PathBuf {
        self.layout.kubeconfig("admin")
    }

    /// A client that may do everything. kube's own retries are off: tests count requests.
    pub fn admin(&self) -> Client {
        self.admin.clone()
    }

    /// A client that acts as `user` in `groups` (and `system:authenticated`): RBAC applies.
    ///
    /// # Errors
    /// When the client cannot be made.
    pub async fn client_for(&self, user: &str, groups: &[&str]) -> Result<Client> {
        let mut config = kubeconfig::config(&read(&self.kubeconfig())?).await?;
        config.auth_info.impersonate = Some(user.to_owned());
        config.auth_info.impersonate_groups = Some(groups.iter().map(|group| (*group).to_owned()).collect());
        Client::try_from(config).with_context(|| format!("make a client for {user}"))
    }

    /// Writes a kubeconfig that acts as a user with a certificate of its own, for another process.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn kubeconfig_for(&self, user: &str, group: Option<&str>) -> Result<PathBuf> {
        let file = file_name(user);
        self.layout.write_kubeconfig(&self.authority, &file, user, group)?;
        Ok(self.layout.kubeconfig(&file))
    }

    /// Writes a kubeconfig with a token of an existing service account, for a process that is to
    /// have exactly its rights.
    ///
    /// # Errors
    /// When the account does not exist.
    pub async fn kubeconfig_for_service_account(&self, namespace: &str, name: &str) -> Result<PathBuf> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin(), namespace);
        let request = TokenRequest {
            spec: Some(TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() }),
            ..TokenRequest::default()
        };
        let answer = accounts
            .create_token_request(name, &PostParams::default(), &request)
            .await
            .with_context(|| format!("token for the service account {namespace}/{name}"))?;
        let token = answer.status.and_then(|status| status.token).context("the API server answered no token")?;
        let text =
            kubeconfig::render(&self.layout.server(), self.authority.certificate(), &Credentials::Token(&token))?;
        let path = self.layout.kubeconfig(&file_name(&format!("{namespace}-{name}")));
        write_private(&path, &text)?;
        Ok(path)
    }

    /// Creates a namespace whose name begins with `prefix` and waits until Pods can be made in it.
    ///
    /// # Errors
    /// When it cannot be created.
    pub async fn namespace(&self, prefix: &str) -> Result<String> {
        let wanted = Namespace {
            metadata: ObjectMeta { generate_name: Some(format!("{prefix}-")), ..ObjectMeta::default() },
            ..Namespace::default()
        };
        let made =
            Api::all(self.admin()).create(&PostParams::default(), &wanted).await.context("create a namespace")?;
        let name = made.name_any();
        self.await_service_account(&name).await?;
        Ok(name)
    }

    /// Until then the API server refuses every Pod of the namespace.
    pub(super) async fn await_service_account(&self, namespace: &str) -> Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.admin(), namespace);
        let what = format!("the default service account of {namespace}");
        until(&what, ACCOUNT_LIMIT, || async {
            self.check()?;
            Ok(match accounts.get_opt("default").await {
                Ok(Some(_)) => Probe::Done(()),
                Ok(None) => Probe::NotYet("the controller manager has not made it".into()),
                Err(error) => Probe::NotYet(error.to_string()),
            })
        })
        .await
    }

    /// The API server's `/metrics`, in Prometheus' text format.
    ///
    /// # Errors
    /// When the server does not answer.
    pub async fn metrics(&self) -> Result<String> {
        let request = Request::get("/metrics").body(Vec::new())?;
        self.admin.request_text(request).await.context("read the API server's metrics")
    }
}

fn file_name(user: &str) -> String {
    user.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' }).collect()
}
