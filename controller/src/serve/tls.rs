//! TLS for `/metrics`: a certificate from files, read again when they change,
//! or one of our own in memory.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail};
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, mpsc};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

/// Longest wait for a client to finish its part of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Handshakes at once; more wait in the backlog.
const HANDSHAKES: usize = 32;

/// Where a certificate and its key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Files {
    /// The certificate and what it was signed by, PEM.
    pub certificate: PathBuf,
    /// Its private key, PEM.
    pub key: PathBuf,
}

/// What this server is to its clients.
#[derive(Debug)]
pub struct Identity {
    files: Option<Files>,
    held: RwLock<Held>,
}

#[derive(Debug)]
struct Held {
    stamp: Option<Stamp>,
    key: Arc<CertifiedKey>,
}

/// When both files were last written, through all links: a mounted Secret is
/// swapped by a link.
type Stamp = [SystemTime; 2];

impl Identity {
    /// Reads the files; without any, makes a certificate for localhost that
    /// nothing trusts.
    ///
    /// # Errors
    /// When a file cannot be read or is no PEM, or certificate and key do not
    /// belong together; the message names the files.
    pub fn new(files: Option<Files>) -> anyhow::Result<Arc<Self>> {
        let held = match &files {
            Some(files) => Held { stamp: stamp(files), key: Arc::new(read(files)?) },
            None => Held { stamp: None, key: Arc::new(self_signed()?) },
        };
        Ok(Arc::new(Self { files, held: RwLock::new(held) }))
    }

    /// Reads the files again if they changed. While they cannot be used (one
    /// is written before the other), what was read before stays in use.
    pub fn refresh(&self) {
        let Some(files) = &self.files else { return };
        let now = stamp(files);
        if now.is_none() || now == self.held.read().unwrap_or_else(PoisonError::into_inner).stamp {
            return;
        }
        match read(files) {
            Ok(key) => {
                tracing::info!(certificate = %files.certificate.display(), "read the new certificate of the metrics");
                let held = Held { stamp: now, key: Arc::new(key) };
                *self.held.write().unwrap_or_else(PoisonError::into_inner) = held;
            }
            Err(error) => {
                tracing::warn!(error = format!("{error:#}"), "the new certificate cannot be used: the old one stays");
            }
        }
    }
}

impl ResolvesServerCert for Identity {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.held.read().unwrap_or_else(PoisonError::into_inner).key))
    }
}

fn stamp(files: &Files) -> Option<Stamp> {
    let of = |path: &Path| fs::metadata(path).and_then(|found| found.modified()).ok();
    Some([of(&files.certificate)?, of(&files.key)?])
}

fn read(files: &Files) -> anyhow::Result<CertifiedKey> {
    let Files { certificate, key } = files;
    let at = certificate.display();
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(certificate)
        .and_then(Iterator::collect)
        .with_context(|| format!("--metrics-cert-path: {at} cannot be read"))?;
    if chain.is_empty() {
        bail!("--metrics-cert-path: {at} has no certificate in it");
    }
    let private = PrivateKeyDer::from_pem_file(key)
        .with_context(|| format!("--metrics-cert-path: {} cannot be read", key.display()))?;
    CertifiedKey::from_der(chain, private, &ring::default_provider())
        .with_context(|| format!("--metrics-cert-path: {at} and {} cannot be used together", key.display()))
}

fn self_signed() -> anyhow::Result<CertifiedKey> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned(), "127.0.0.1".to_owned()])
        .context("make a certificate for the metrics")?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).map_err(anyhow::Error::msg)?;
    CertifiedKey::from_der(vec![made.cert.der().clone()], key, &ring::default_provider())
        .context("use the certificate made for the metrics")
}

/// Connections whose handshake is done. A client that dawdles holds up nobody.
pub struct Listener {
    address: SocketAddr,
    ready: mpsc::Receiver<(TlsStream<TcpStream>, SocketAddr)>,
}

impl Listener {
    /// Accepts on `tcp` as `identity`.
    ///
    /// # Errors
    /// When the socket has no address, or TLS cannot be set up.
    pub fn new(tcp: TcpListener, identity: Arc<Identity>) -> anyhow::Result<Self> {
        let address = tcp.local_addr()?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .context("set up TLS")?
            .with_no_client_auth()
            .with_cert_resolver(Arc::clone(&identity) as Arc<dyn ResolvesServerCert>);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let (tell, ready) = mpsc::channel(HANDSHAKES);
        tokio::spawn(accept(tcp, TlsAcceptor::from(Arc::new(config)), identity, tell));
        Ok(Self { address, ready })
    }
}

impl axum::serve::Listener for Listener {
    type Io = TlsStream<TcpStream>;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        match self.ready.recv().await {
            Some(connection) => connection,
            None => std::future::pending().await,
        }
    }

    fn local_addr(&self) -> std::io::Result<SocketAddr> {
        Ok(self.address)
    }
}

/// Ends with its [`Listener`].
async fn accept(
    tcp: TcpListener,
    acceptor: TlsAcceptor,
    identity: Arc<Identity>,
    tell: mpsc::Sender<(TlsStream<TcpStream>, SocketAddr)>,
) {
    let places = Arc::new(Semaphore::new(HANDSHAKES));
    while !tell.is_closed() {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let connection = tokio::select! {
            connection = tcp.accept() => connection,
            () = tell.closed() => return,
        };
        let Ok((stream, from)) = connection else {
            // Out of file descriptors, most likely: what is open has to end.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        identity.refresh();
        let (acceptor, tell) = (acceptor.clone(), tell.clone());
        tokio::spawn(async move {
            match timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => drop(tell.send((stream, from)).await),
                Ok(Err(error)) => tracing::debug!(%from, %error, "no TLS on the metrics port"),
                Err(_) => tracing::debug!(%from, "a TLS handshake on the metrics port took too long"),
            }
            drop(place);
        });
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use rustls::pki_types::ServerName;
    use rustls::{ClientConfig, RootCertStore};
    use tokio_rustls::TlsConnector;

    use super::*;

    async fn serve(identity: &Arc<Identity>) -> (Listener, SocketAddr) {
        let listener = Listener::new(TcpListener::bind("127.0.0.1:0").await.unwrap(), Arc::clone(identity)).unwrap();
        let address = axum::serve::Listener::local_addr(&listener).unwrap();
        (listener, address)
    }

    fn certificate(identity: &Identity) -> CertificateDer<'static> {
        identity.held.read().unwrap().key.cert[0].clone()
    }

    async fn connect(address: SocketAddr, trusted: CertificateDer<'static>) -> std::io::Result<()> {
        let mut roots = RootCertStore::empty();
        roots.add(trusted).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(address).await?;
        let name = ServerName::try_from("localhost").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.map(drop)
    }

    fn write(files: &Files, certificate: &str, key: &str) {
        fs::write(&files.certificate, certificate).unwrap();
        fs::write(&files.key, key).unwrap();
    }

    fn made() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[tokio::test]
    async fn without_files_it_has_a_certificate_of_its_own_and_a_client_that_dawdles_holds_up_nobody() {
        let identity = Identity::new(None).unwrap();
        let (mut listener, address) = serve(&identity).await;
        let _silent = TcpStream::connect(address).await.unwrap();
        connect(address, certificate(&identity)).await.unwrap();
        axum::serve::Listener::accept(&mut listener).await;
    }

    #[tokio::test]
    async fn a_new_certificate_is_used_once_its_key_is_there_too() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files { certificate: dir.path().join("tls.crt"), key: dir.path().join("tls.key") };
        let (old, new) = (made(), made());
        write(&files, &old.0, &old.1);
        let identity = Identity::new(Some(files.clone())).unwrap();
        let (_listener, address) = serve(&identity).await;
        let first = certificate(&identity);
        connect(address, first.clone()).await.unwrap();

        write(&files, &new.0, &old.1);
        connect(address, first.clone()).await.unwrap();
        write(&files, &new.0, &new.1);
        let second = CertificateDer::from_pem_slice(new.0.as_bytes()).unwrap();
        connect(address, second).await.unwrap();
        assert!(connect(address, first).await.is_err());
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files { certificate: dir.path().join("tls.crt"), key: dir.path().join("tls.key") };
        let text = format!("{:#}", Identity::new(Some(files.clone())).unwrap_err());
        assert!(text.contains("tls.crt cannot be read"), "{text}");
        write(&files, &made().0, &made().1);
        let text = format!("{:#}", Identity::new(Some(files)).unwrap_err());
        assert!(text.contains("cannot be used together"), "{text}");
    }
}
