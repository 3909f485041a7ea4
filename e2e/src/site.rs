//! A whole system on a whole node: operator and server as processes of this machine, with a real deployment's
//! config and Pools.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, CustomResourceExt};
use sandbox_api::Pool;
use sandbox_cluster::{home, kubeconfig, node};
use serde_json::Value;

use crate::operator::{Operator, OperatorOptions};
use crate::program::{find, logs};
use crate::sdk::run;
use crate::server::{Server, ServerOptions};
use crate::{accounts, manifests};

/// Where the sandboxes are, says the seeds' config.
pub const NAMESPACE: &str = "opensandbox";
/// The image of the seeds' Pools.
pub const IMAGE: &str = "sandbox-registry.cn-zhangjiakou.cr.aliyuncs.com/opensandbox/code-interpreter:v1.1.0";
/// The API key of these servers: they listen on the loopback address only.
pub const API_KEY: &str = "demo-key";

/// A cluster that is up, and how to reach it.
pub struct Cluster {
    /// The administrator's kubeconfig.
    pub kubeconfig: PathBuf,
    /// Its client.
    pub client: Client,
}

impl Cluster {
    /// The cluster in use: this checkout's whole node, or the one that `KUBECONFIG` names.
    ///
    /// # Errors
    /// When none runs; the message says how to bring one up.
    pub async fn in_use() -> Result<Self> {
        let program = find("sandbox-cluster", "sandbox-cluster")?;
        let told = run(Command::new(program).arg("kubeconfig"))?;
        let path = PathBuf::from(String::from_utf8(told.stdout)?.trim());
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        Ok(Self { client: kubeconfig::client(&text).await?, kubeconfig: path })
    }
}

impl Cluster {
    /// Whether it is the node that this checkout brought up, and not somebody's own.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.kubeconfig.starts_with(home::state())
    }

    /// Whether it has our kinds.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn has_kinds(&self) -> Result<bool> {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        Ok(definitions.get_opt(Pool::crd_name()).await.context("look for our kinds")?.is_some())
    }
}

/// A running system.
pub struct Site {
    /// The operator.
    pub operator: Operator,
    /// The server.
    pub server: Server,
    /// Where both log.
    pub logs: PathBuf,
}

impl Site {
    /// Starts operator and server against a cluster that has our definitions and rights.
    ///
    /// # Errors
    /// When one does not get ready; the message ends with the end of its log.
    pub async fn start(cluster: &Cluster, name: &str) -> Result<Self> {
        let dir = logs(name)?;
        let account = async |account: &str| {
            let path = dir.join(format!("{account}.kubeconfig"));
            accounts::kubeconfig(&cluster.client, &cluster.kubeconfig, account, &path).await?;
            Ok::<_, anyhow::Error>(path)
        };
        let options = OperatorOptions::new(&account(accounts::OPERATOR).await?, &dir);
        let operator = Operator::start(&options).await?;
        let config = dir.join("config.toml");
        fs::write(&config, seed_config()?).with_context(|| format!("write {}", config.display()))?;
        let options = ServerOptions {
            config,
            kubeconfig: account(accounts::SERVER).await?,
            logs: dir.clone(),
            // What the server's image has in /etc.
            file_root: Some(home::checkout().join("server")),
            api_key: Some(API_KEY.into()),
        };
        Ok(Self { operator, server: Server::start(&options).await?, logs: dir })
    }

    /// Ends both as a Deployment would, so that the Lease is given back.
    pub fn stop(mut self) {
        self.server.program().stop();
        self.operator.program().stop();
    }
}

/// Applies our namespaces, definitions and rights. `known`: whether the cluster had our kinds before anybody applied them.
/// Returns whether the node's controllers were started anew, so that its garbage collector knows new kinds at once; a
/// cluster that is not ours is left to learn of them by itself.
///
/// # Errors
/// When the API server refuses one.
pub async fn install(cluster: &Cluster, known: bool) -> Result<bool> {
    manifests::install(&cluster.client).await?;
    let anew = !known && cluster.is_ours();
    if anew {
        tokio::task::spawn_blocking(node::restart_controllers).await??;
    }
    Ok(anew)
}

/// The server's config of the seeds' values, byte for byte.
///
/// # Errors
/// When the seeds cannot be read.
pub fn seed_config() -> Result<String> {
    let path = home::checkout().join("e2e/seeds/values-minimal.yaml");
    let text = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let values: Value = serde_saphyr::from_str(&text).with_context(|| format!("read {}", path.display()))?;
    let config = values["opensandbox-server"]["configToml"].as_str();
    Ok(config.context("the seeds' values have no configToml")?.to_owned())
}
