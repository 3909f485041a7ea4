//! The one client of this process: counted, bounded, and never retrying by
//! itself. A failed request is looked at by the plan that asked for it.

use std::path::Path;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use bytes::Bytes;
use futures::future::BoxFuture;
use http::header::CONTENT_TYPE;
use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::{Body, ClientBuilder, DynBody};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use sandbox_api::Shallow;
use tower::limit::RateLimitLayer;
use tower::util::{MapResponseLayer, option_layer};
use tower::{Layer, Service};

use crate::flags::Flags;
use crate::metrics::Metrics;

/// Connects as the flags say: `--kubeconfig`, else `$KUBECONFIG`, else the
/// Pod's own account.
///
/// # Errors
/// When no configuration is found or it cannot be used; the message says where
/// it was looked for.
pub async fn connect(flags: &Flags, metrics: &Metrics) -> anyhow::Result<Client> {
    let mut config = config(flags.kubeconfig.as_deref()).await?;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.default_retry = false;
    let rate = (flags.kube_client_qps > 0.0).then(|| {
        let burst = u64::from(flags.kube_client_burst.max(1));
        #[allow(clippy::cast_precision_loss)] // A burst is a small number.
        RateLimitLayer::new(burst, Duration::from_secs_f64(burst as f64 / flags.kube_client_qps))
    });
    let counted = CountLayer { metrics: Arc::new(metrics.clone()) };
    let builder = ClientBuilder::try_from(config).context("the cluster configuration cannot be used")?;
    Ok(builder.with_layer(&MapResponseLayer::new(shallow)).with_layer(&counted).with_layer(&option_layer(rate)).build())
}

async fn config(kubeconfig: Option<&Path>) -> anyhow::Result<Config> {
    match kubeconfig {
        Some(path) => {
            let file = Kubeconfig::read_from(path)
                .with_context(|| format!("--kubeconfig {} cannot be read", path.display()))?;
            Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                .await
                .with_context(|| format!("--kubeconfig {} cannot be used", path.display()))
        }
        None => Config::infer().await.context(
            "no cluster to connect to: give --kubeconfig, set KUBECONFIG, or run in a Pod with a service account",
        ),
    }
}

/// Answers that are JSON, read no deeper than a Pod can be: the decoder gives
/// up on deeper ones, and one such object would fail every list of its kind.
fn shallow(answer: Response<Box<DynBody>>) -> Response<Box<DynBody>> {
    let json = answer.headers().get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    if !json {
        return answer;
    }
    let mut shallow = Shallow::default();
    answer.map(|body| {
        let body = body.map_frame(move |frame| frame.map_data(|chunk| shallow.pass(&chunk).map_or(chunk, Bytes::from)));
        Box::new(body) as Box<DynBody>
    })
}

/// Counts every request by the verb that kube gave it, the kind in its path
/// and the code of its answer.
#[derive(Clone)]
struct CountLayer {
    metrics: Arc<Metrics>,
}

impl<S> Layer<S> for CountLayer {
    type Service = Count<S>;

    fn layer(&self, inner: S) -> Count<S> {
        Count { inner, metrics: Arc::clone(&self.metrics) }
    }
}

#[derive(Clone)]
struct Count<S> {
    inner: S,
    metrics: Arc<Metrics>,
}

impl<S, B> Service<Request<Body>> for Count<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    B: 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let verb = request.extensions().get::<&'static str>().copied().unwrap_or("other");
        let kind = kind_in(request.uri().path()).to_owned();
        let metrics = Arc::clone(&self.metrics);
        let start = Instant::now();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().map_or_else(|_| "none".to_owned(), |a| a.status().as_u16().to_string());
            metrics.requests.with_label_values(&[verb, &kind, &code]).inc();
            metrics.request_seconds.with_label_values(&[verb, &kind]).observe(start.elapsed().as_secs_f64());
            answer
        })
    }
}

/// The plural in an API path, `pools/status` for a subresource; names are
/// left out so that the number of series stays bounded.
fn kind_in(path: &str) -> String {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let depth = match parts.next() {
        Some("api") => 1,
        Some("apis") => 2,
        Some(_) | None => return "none".to_owned(),
    };
    let mut parts = parts.skip(depth).peekable();
    let mut kind = parts.next().unwrap_or("none");
    let mut rest: Vec<&str> = parts.collect();
    if kind == "namespaces" && rest.len() >= 2 {
        kind = rest[1];
        rest.drain(..2);
    }
    match rest.get(1) {
        Some(subresource) => format!("{kind}/{subresource}"),
        None => kind.to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_kind_and_never_by_name() {
        for (path, kind) in [
            ("/api/v1/namespaces/ns/pods/a", "pods"),
            ("/api/v1/namespaces/ns/pods", "pods"),
            ("/api/v1/pods", "pods"),
            ("/api/v1/nodes/n1", "nodes"),
            ("/apis/sandbox.opensandbox.io/v1alpha1/namespaces/ns/pools/p/status", "pools/status"),
            ("/apis/sandbox.opensandbox.io/v1alpha1/pools", "pools"),
            ("/apis/coordination.k8s.io/v1/namespaces/ns/leases/x", "leases"),
            ("/api/v1/namespaces/ns", "namespaces"),
            ("/version", "none"),
        ] {
            assert_eq!(kind_in(path), kind, "{path}");
        }
    }
}
