//! From arguments to a server that serves, and back to nothing.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use kube::core::DeserializeGuard;
use kube::{Api, Client};
use sandbox_api::{BatchSandbox, Sandbox};
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tracing_subscriber::EnvFilter;

use crate::app::{App, Stage};
use crate::cli::{Args, LogFormat};
use crate::cluster::{self, Cluster};
use crate::config::{self, Config, Env, LogLevel, WorkloadProvider};
use crate::leftover::Janitor;
use crate::metrics::Metrics;
use crate::store::{self, Store};
use crate::{connections, routes, template};

/// How long callers that were cut off have to take their answer.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
/// How long a server that stops may still clean up after creates that it cut off.
const LAST_CLEANING: Duration = Duration::from_secs(15);

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// When the server cannot start, or a part of it ended that never should.
pub async fn run(args: Args) -> anyhow::Result<()> {
    let path = config::find(args.config.as_deref());
    let loaded = config::load(&path, &Env::from_process())?;
    start_log(args.log_format, loaded.config.log.level);
    tracing::info!(config = %path.display(), "starting opensandbox-server {}", env!("CARGO_PKG_VERSION"));
    for warning in &loaded.remarks.warnings {
        tracing::warn!("{warning}");
    }
    for note in &loaded.remarks.notes {
        tracing::info!("{note}");
    }
    let config = loaded.config;
    if config.server.api_key.is_none() {
        tracing::warn!("no API key: everybody who reaches this server may use it");
    }
    let client = cluster::connect(&config.kubernetes, args.kubeconfig.as_deref())
        .await
        .context("cannot find the cluster; name a kubeconfig with --kubeconfig or kubernetes.kubeconfig_path")?;
    let server = Server::build(config, client, &args).await?;
    let mut terminated = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let mut interrupted = signal(SignalKind::interrupt()).context("listen for SIGINT")?;
    let stop = async move {
        tokio::select! {
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
    };
    server.serve(stop).await
}

fn start_log(format: LogFormat, level: LogLevel) {
    // The client logs every 5xx as an error of its own; the edge says it once.
    let filter = EnvFilter::new(format!("{},kube_client=off,hyper=warn,tower=warn", level.as_str()));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match format {
        LogFormat::Text => builder.with_ansi(false).init(),
        LogFormat::Json => builder.json().flatten_event(true).with_span_list(false).init(),
    }
}

/// A server that is ready to serve.
pub struct Server {
    app: Arc<App>,
    listener: TcpListener,
    cleaning: JoinHandle<()>,
    watches: JoinSet<()>,
}

impl Server {
    /// Builds every part, and starts the watches.
    ///
    /// # Errors
    /// When a file, the RuntimeClass or the address cannot be used; the message says what to do.
    pub async fn build(config: Config, client: Client, args: &Args) -> anyhow::Result<Self> {
        let namespace = config.kubernetes.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
        let template = match &config.kubernetes.batchsandbox_template_file {
            Some(path) => Some(template::load(&template::under(args.file_root.as_deref(), path))?),
            None => None,
        };
        let store = Store::new();
        let cluster = Cluster::new(client, Arc::clone(&store));
        check_runtime_class(&config, &cluster).await?;
        let watches = start_watches(&config, &cluster, &store, &namespace);
        let (janitor, cleaning) = Janitor::start(cluster.clone());
        let listener = listen(&config, args.listen).await?;
        let metrics = Metrics::new().context("counters")?;
        let stage = watch::Sender::new(Stage::Serving);
        let app = Arc::new(App { config, namespace, template, store, cluster, janitor, metrics, stage });
        Ok(Self { app, listener, cleaning, watches })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the system cannot tell.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// The parts, for a look from outside.
    #[must_use]
    pub fn app(&self) -> Arc<App> {
        Arc::clone(&self.app)
    }

    /// Serves until `stop`; then lets requests in flight finish for as long as the configuration
    /// says, and cleans up after those that it has to cut off.
    ///
    /// # Errors
    /// When serving or a watch ends by itself.
    pub async fn serve(self, stop: impl Future<Output = ()> + Send) -> anyhow::Result<()> {
        let Self { app, listener, cleaning, mut watches } = self;
        tracing::info!(address = %listener.local_addr()?, namespace = app.namespace, "listening");
        let grace = app.config.server.graceful_shutdown;
        let (drain, drained) = oneshot::channel::<()>();
        let router = routes::router(Arc::clone(&app));
        let keep_alive = app.config.server.keep_alive;
        let mut serving = tokio::spawn(connections::serve(listener, router, keep_alive, async {
            // A dropped sender means the same.
            let _ = drained.await;
        }));
        tokio::select! {
            () = stop => {}
            ended = &mut serving => bail!("serving ended: {ended:?}"),
            Some(ended) = watches.join_next() => bail!("a watch ended: {ended:?}"),
        }
        tracing::info!(grace_seconds = grace.as_secs(), "stopping");
        app.stage.send_replace(Stage::Draining);
        // Nobody hears it when serving is over already.
        let _ = drain.send(());
        if tokio::time::timeout(grace, &mut serving).await.is_err() {
            tracing::warn!("requests are still in flight; cutting them off");
            app.stage.send_replace(Stage::Cutting);
            // Connections that do not take their answer are left to the end of the process.
            let _ = tokio::time::timeout(LAST_ANSWERS, &mut serving).await;
        }
        watches.shutdown().await;
        drop(app);
        if tokio::time::timeout(LAST_CLEANING, cleaning).await.is_err() {
            tracing::error!("stopped before everything was cleaned up");
        }
        tracing::info!("stopped");
        Ok(())
    }
}

async fn check_runtime_class(config: &Config, cluster: &Cluster) -> anyhow::Result<()> {
    let Some(runtime) = &config.secure_runtime else { return Ok(()) };
    let name = &runtime.runtime_class;
    match cluster.has_runtime_class(name).await {
        Ok(true) => Ok(()),
        Ok(false) => bail!(
            "secure_runtime.k8s_runtime_class: the cluster has no RuntimeClass \"{name}\"; install it, or name another"
        ),
        Err(error) if error.code() == Some(403) => {
            tracing::warn!(runtime_class = name, %error, "may not look whether the RuntimeClass is there");
            Ok(())
        }
        Err(error) => {
            Err(error).context(format!("secure_runtime.k8s_runtime_class: cannot look for the RuntimeClass \"{name}\""))
        }
    }
}

fn start_watches(config: &Config, cluster: &Cluster, store: &Arc<Store>, namespace: &str) -> JoinSet<()> {
    let batches: Api<DeserializeGuard<BatchSandbox>> = Api::namespaced(cluster.client(), namespace);
    let singles: Api<DeserializeGuard<Sandbox>> = Api::namespaced(cluster.client(), namespace);
    // A cluster whose CRDs are the reference's has no Sandboxes; that is fine unless we write them.
    let optional = config.kubernetes.workload_provider != WorkloadProvider::Sandbox;
    let mut watches = JoinSet::new();
    watches.spawn(store::run_watch(Arc::clone(store), batches, namespace.to_owned(), false));
    watches.spawn(store::run_watch(Arc::clone(store), singles, namespace.to_owned(), optional));
    watches
}

async fn listen(config: &Config, flag: Option<SocketAddr>) -> anyhow::Result<TcpListener> {
    let server = &config.server;
    let address = match flag {
        Some(address) => address,
        None => {
            let mut found = tokio::net::lookup_host((server.host.as_str(), server.port))
                .await
                .with_context(|| format!("server.host: \"{}\" is no address", server.host))?;
            found.next().with_context(|| format!("server.host: \"{}\" has no address", server.host))?
        }
    };
    let socket = if address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }.context("open a socket")?;
    socket.set_reuseaddr(true).context("open a socket")?;
    socket
        .bind(address)
        .with_context(|| format!("cannot listen on {address}; choose another with --listen or server.port"))?;
    socket.listen(server.backlog).context("listen")
}
