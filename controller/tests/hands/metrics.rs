//! The operator's `/metrics`, as a collector meets them.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, PostParams};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sandbox_cluster::pki::Authority;
use sandbox_cluster::ports::Port;
use sandbox_e2e::{Outcome, Stage, StageOptions, on_own_stage};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// GET of `/metrics` by a client that trusts this authority only.
async fn get(port: u16, authority: &Authority, token: Option<&str>) -> Result<String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.certificate().as_bytes())?)?;
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tcp = TcpStream::connect(("127.0.0.1", port)).await?;
    let mut stream = TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost")?, tcp).await?;
    let bearer = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let request = format!("GET /metrics HTTP/1.1\r\nHost: localhost\r\n{bearer}Connection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

/// A token of a new account, which may read metrics or not.
async fn token(stage: &Stage, namespace: &str, name: &str, reads: bool) -> Result<String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(stage.admin(), namespace);
    let account = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
    accounts.create(&PostParams::default(), &account).await?;
    if reads {
        let bindings: Api<ClusterRoleBinding> = Api::all(stage.admin());
        let binding = serde_json::from_value(json!({
            "metadata": { "name": format!("{namespace}-{name}") },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "opensandbox-metrics-reader" },
            "subjects": [{ "kind": "ServiceAccount", "name": name, "namespace": namespace }],
        }))?;
        bindings.create(&PostParams::default(), &binding).await?;
    }
    let wanted = TokenRequest { spec: Some(TokenRequestSpec::default()), ..TokenRequest::default() };
    let answer = accounts.create_token_request(name, &PostParams::default(), &wanted).await?;
    answer.status.and_then(|status| status.token).context("no token")
}

fn starts(answer: &str, code: &str) -> Result<()> {
    ensure!(answer.starts_with(&format!("HTTP/1.1 {code} ")), "not {code}: {answer}");
    Ok(())
}

#[test]
fn secure_metrics_are_read_over_tls_by_whom_the_cluster_lets_and_a_new_certificate_needs_no_restart() -> Outcome {
    let port = Port::take().unwrap();
    let dir = tempfile::tempdir().unwrap();
    let names = ["localhost".to_owned()];
    let (first, second) = (Authority::create().unwrap(), Authority::create().unwrap());
    first.server("metrics", &names).unwrap().write(dir.path(), "tls").unwrap();
    let mut options = StageOptions::named("secure-metrics");
    options.operator_args = vec![
        "--metrics-secure".to_owned(),
        format!("--metrics-bind-address=127.0.0.1:{}", port.number()),
        format!("--metrics-cert-path={}", dir.path().display()),
    ];
    on_own_stage(options, async |stage| {
        let port = port.number();
        let namespace = stage.namespace("metrics").await?;
        let reader = token(stage, &namespace, "reader", true).await?;
        let other = token(stage, &namespace, "other", false).await?;
        starts(&get(port, &first, None).await?, "401")?;
        starts(&get(port, &first, Some("made-up")).await?, "401")?;
        starts(&get(port, &first, Some(&other)).await?, "403")?;
        let answer = get(port, &first, Some(&reader)).await?;
        starts(&answer, "200")?;
        ensure!(answer.contains("opensandbox_controller_leader 1"), "{answer}");

        ensure!(get(port, &second, Some(&reader)).await.is_err(), "any certificate is taken");
        second.server("metrics", &names)?.write(dir.path(), "tls")?;
        starts(&get(port, &second, Some(&reader)).await?, "200")?;
        Ok(())
    })
}
