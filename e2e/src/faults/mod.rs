//! A proxy between a program of ours and the API server, which makes the network and the API server fail.
//!
//! TLS on both sides: the client gets a kubeconfig that trusts the proxy's own authority; the proxy goes on to the API
//! server as the user of the kubeconfig that it was made from. It delays, refuses and loses; it never answers of an
//! object what the API server did not say.

mod ambush;
mod asked;
mod dice;
mod serve;
mod state;
mod watches;
mod weather;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sandbox_cluster::kubeconfig;
use sandbox_cluster::pki::{Authority, write_private};
use sandbox_cluster::ports::Port;
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

pub use ambush::{Caught, Moment, Waiting};
pub use asked::{Asked, Verb};
pub use dice::Dice;
pub use state::{Counts, Entry};
pub use weather::{Fault, Refusal, Rule, Scope, Weather};

use ambush::Ambush;
use serve::Way;
use state::State;

/// A running proxy for one client. It stops when dropped.
pub struct FaultProxy {
    state: Arc<State>,
    kubeconfig: PathBuf,
    task: JoinHandle<()>,
    _port: Port,
}

impl FaultProxy {
    /// Starts a proxy to the API server of a kubeconfig, as its user. The client's kubeconfig is written beside it, as
    /// `<name>.kubeconfig`.
    ///
    /// # Errors
    /// When a file cannot be read or written, or no port is free.
    pub async fn start(name: &str, upstream: &Path, seed: u64) -> Result<Self> {
        let text = fs::read_to_string(upstream).with_context(|| format!("read {}", upstream.display()))?;
        let (port, listener) = Port::listening()?;
        let authority = Authority::create()?;
        let acceptor = acceptor(&authority)?;
        listener.set_nonblocking(true).context("make the proxy's socket wait for nobody")?;
        let listener = TcpListener::from_std(listener)?;
        let kubeconfig = upstream.with_file_name(format!("{name}.kubeconfig"));
        let server = format!("https://127.0.0.1:{}", port.number());
        write_private(&kubeconfig, &redirected(&text, &server, authority.certificate())?)?;
        let state = Arc::new(State::new(seed));
        let way = Way { state: Arc::clone(&state), upstream: kubeconfig::client(&text).await? };
        let task = tokio::spawn(accept(listener, acceptor, way));
        Ok(Self { state, kubeconfig, task, _port: port })
    }

    /// The kubeconfig of the client that goes through this proxy.
    #[must_use]
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// From now on these faults and no others.
    pub fn set(&self, weather: Weather) {
        self.state.set(weather);
    }

    /// Ends all faults: what is held up passes, requests that would land late land now, no ambush is left.
    pub fn heal(&self) {
        self.state.heal();
    }

    /// Breaks every open watch, once.
    pub fn cut_watches(&self) {
        self.state.cut_watches();
    }

    /// Lies in wait for the `nth` request (from 1) that is wanted, before or after it takes effect.
    pub fn ambush(&self, moment: Moment, nth: u32, wanted: impl Fn(&Asked) -> bool + Send + 'static) -> Waiting {
        let (tell, told) = oneshot::channel();
        self.state.add_ambush(Ambush { wanted: Box::new(wanted), left: nth.max(1), moment, tell });
        Waiting(told)
    }

    /// How many requests passed unharmed, and what struck the others.
    #[must_use]
    pub fn counts(&self) -> (u64, Counts) {
        self.state.counts()
    }

    /// The requests so far, in the order of their end.
    #[must_use]
    pub fn journal(&self) -> Vec<Entry> {
        self.state.journal()
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn acceptor(authority: &Authority) -> Result<TlsAcceptor> {
    let identity = authority.server("fault-proxy", &["127.0.0.1".into(), "localhost".into()])?;
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).context("read a certificate")?;
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).context("read a key")?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .context("set up TLS")?
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .context("use the proxy's certificate")?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A kubeconfig whose clusters are reached through the proxy.
fn redirected(text: &str, server: &str, authority: &str) -> Result<String> {
    let mut config: Value = serde_saphyr::from_str(text).context("read a kubeconfig")?;
    let data = sandbox_cluster::kubeconfig::base64(authority.as_bytes());
    for cluster in config["clusters"].as_array_mut().context("the kubeconfig has no clusters")? {
        cluster["cluster"] = json!({ "server": server, "certificate-authority-data": data });
    }
    serde_saphyr::to_string(&config).context("write a kubeconfig")
}

/// Ends with the proxy, and every connection with it.
async fn accept(listener: TcpListener, acceptor: TlsAcceptor, way: Way) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // A refused connection is the client's to try again.
            accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                connections.spawn(serve(stream, acceptor.clone(), way.clone()));
            },
            Some(_) = connections.join_next() => {}
        }
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, way: Way) {
    // A client that is partitioned off reaches nobody.
    way.state.open().await;
    // Small answers at once: they are what the client waits for.
    let _ = stream.set_nodelay(true);
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(|request| way.clone().pass(request));
    // A connection that breaks is what this is for.
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}
