//! The life of the process: connect, lead, take over, watch, work, end.

use std::sync::Arc;
use std::time::Duration;

use futures::future::{self, BoxFuture};
use kube::core::DeserializeGuard;
use kube::{Api, Client, Resource};
use sandbox_api::labels;
use serde::de::DeserializeOwned;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Notify, mpsc};

use crate::apply::calls::Calls;
use crate::apply::{events, takeover};
use crate::context::{Context, Setup};
use crate::flags::Flags;
use crate::lanes::Lanes;
use crate::lease::{Elector, Leadership, Office, Term, term_without_lease};
use crate::metrics::Metrics;
use crate::queue::{Outcome, Queue};
use crate::serve::guard::Guard;
use crate::serve::tls::Identity;
use crate::serve::{self, Readiness};
use crate::store::kinds::PodIndex;
use crate::store::{Arrivals, Kept, Key, Store};
use crate::{claim, client, pool, watch};

/// How long writes in flight may take at the end.
const LAST_WRITES: Duration = Duration::from_secs(6);

/// What lasts as long as the process.
struct Process {
    flags: Flags,
    client: Client,
    metrics: Metrics,
    readiness: Readiness,
    stop: Stop,
}

/// Runs until SIGTERM or SIGINT.
///
/// # Errors
/// When the process cannot go on: no cluster, a lost Lease, an ended watch.
/// It must then exit, and be started again.
pub async fn run(flags: Flags) -> anyhow::Result<()> {
    for flag in flags.without_effect() {
        tracing::warn!("this flag has no effect: {flag}");
    }
    let (stop, metrics) = (Stop::on_signal()?, Metrics::new()?);
    let client = client::connect(&flags, &metrics).await?;
    let process = Process { flags, client, metrics, readiness: Readiness::default(), stop };
    tokio::select! {
        ended = serve_http(&process) => ended,
        ended = lead(&process) => ended,
    }
}

/// Ends only with an error.
async fn serve_http(process: &Process) -> anyhow::Result<()> {
    let Process { flags, client, metrics, readiness, .. } = process;
    let probes: BoxFuture<'_, anyhow::Result<()>> = match flags.health_probe_bind_address.0 {
        Some(address) => Box::pin(serve::probes(address, readiness.clone())),
        None => Box::pin(future::pending()),
    };
    let counts: BoxFuture<'_, anyhow::Result<()>> = match flags.metrics_bind_address.0 {
        Some(address) if flags.metrics_secure => {
            let identity = Identity::new(flags.metrics_files())?;
            let guard = Guard::of_cluster(client.clone());
            Box::pin(serve::secure_metrics(address, metrics.clone(), identity, guard))
        }
        Some(address) => Box::pin(serve::metrics(address, metrics.clone())),
        None => Box::pin(future::pending()),
    };
    future::try_join(probes, counts).await.map(|((), ())| ())
}

async fn lead(process: &Process) -> anyhow::Result<()> {
    let Process { flags, client, metrics, readiness, stop } = process;
    if stop.unless(reach(client)).await.is_none() {
        return Ok(());
    }
    readiness.connected();
    let name = uuid::Uuid::new_v4().to_string();
    if !flags.leader_elect {
        return work(process, term_without_lease(&name), Leadership::unlimited()).await;
    }
    tracing::info!(lease = crate::lease::LEASE, namespace = flags.own_namespace(), "waiting for the Lease");
    let elector = Elector::new(client.clone(), &flags.own_namespace(), name);
    let Some((mut office, leadership)) = stop.unless(elector.acquire()).await else { return Ok(()) };
    metrics.leader.set(1);
    tracing::info!(term = office.term.number, process = office.term.process, "leading");
    let ended = hold_and_work(process, leadership, &mut office).await;
    metrics.leader.set(0);
    if ended.is_ok()
        && let Err(error) = office.release().await
    {
        tracing::warn!(%error, "the Lease was not released: the next process waits until it runs out");
    }
    ended
}

async fn hold_and_work(process: &Process, leadership: Leadership, office: &mut Office) -> anyhow::Result<()> {
    let term = office.term.clone();
    tokio::select! {
        // Renewal goes on while the last writes end.
        held = office.hold(future::pending()) => held,
        ended = work(process, term, leadership) => ended,
    }
}

/// Waits for the API server, so that a standby that says it is ready is.
async fn reach(client: &Client) {
    loop {
        match client.apiserver_version().await {
            Ok(version) => {
                tracing::info!(version = version.git_version, "connected to the API server");
                return;
            }
            Err(error) => tracing::warn!(%error, "the API server does not answer yet"),
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

async fn work(process: &Process, term: Term, leadership: Leadership) -> anyhow::Result<()> {
    let Process { flags, client, metrics, readiness, stop } = process;
    let arrivals = Arc::new(Arrivals::default());
    let lanes = Lanes::new(flags.kube_client_concurrency);
    let calls = Calls::new(client.clone(), lanes, Arc::clone(&arrivals), leadership);
    let setup =
        Setup { term, compat: flags.compat_annotations, namespace: flags.watched_namespace().map(str::to_owned) };
    let (fatal, mut reasons) = mpsc::unbounded_channel();
    let context = Context::new(setup, calls, &arrivals, metrics.clone(), fatal);
    let watched = Arc::clone(&context);
    readiness.leads(Box::new(move || unsynced(&watched)));
    match stop.unless(takeover::take_all(&context)).await {
        Some(taken) => taken?,
        None => return Ok(()),
    }
    let watches = watch_all(&context, client);
    let workers = work_all(flags, &context);
    let ended = tokio::select! {
        () = stop.asked() => Ok(()),
        kind = watches => Err(anyhow::anyhow!("the watch of {kind} ended")),
        () = workers => Err(anyhow::anyhow!("the workers ended")),
        () = events::publish(&context) => Err(anyhow::anyhow!("the writer of events ended")),
        Some(reason) = reasons.recv() => Err(anyhow::anyhow!(reason)),
    };
    context.pool_queue.close();
    context.claim_queue.close();
    if ended.is_ok() && !context.work.finished(LAST_WRITES).await {
        tracing::warn!("some writes had not ended after {} s", LAST_WRITES.as_secs());
    }
    ended
}

/// Stores that have no complete list yet.
fn unsynced(context: &Context) -> Vec<&'static str> {
    let stores = [
        ("pools", context.pools.is_synced()),
        ("batchsandboxes", context.batches.is_synced()),
        ("sandboxes", context.singles.is_synced()),
        ("pods", context.pods.is_synced()),
        ("nodes", context.setup.namespace.is_some() || context.nodes.is_synced()),
    ];
    stores.into_iter().filter(|(_, synced)| !synced).map(|(name, _)| name).collect()
}

/// Runs every watch; ends with the kind whose watch ended.
async fn watch_all(context: &Arc<Context>, client: &Client) -> &'static str {
    let ours = format!("{}={}", labels::MANAGED_BY, labels::MANAGED_BY_CONTROLLER);
    let namespace = context.setup.namespace.as_deref();
    let (metrics, synced) = (&context.metrics, &context.synced);
    let pools = watch::follow(api(client, namespace), None, &context.pools, metrics, synced);
    let batches = watch::follow(api(client, namespace), None, &context.batches, metrics, synced);
    let singles = watch::follow(api(client, namespace), None, &context.singles, metrics, synced);
    let pods = watch::follow(api(client, namespace), Some(&ours), &context.pods, metrics, synced);
    let nodes = async {
        match namespace {
            None => watch::follow(Api::all(client.clone()), None, &context.nodes, metrics, synced).await,
            // A namespaced role may not read nodes: every node counts as healthy.
            Some(_) => future::pending().await,
        }
    };
    tokio::select! {
        () = pools => "pools",
        () = batches => "batchsandboxes",
        () = singles => "sandboxes",
        () = pods => "pods",
        () = nodes => "nodes",
    }
}

fn api<K>(client: &Client, namespace: Option<&str>) -> Api<DeserializeGuard<K>>
where
    K: Kept + Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope> + DeserializeOwned,
{
    match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    }
}

/// Runs all workers once every store is complete.
async fn work_all(flags: &Flags, context: &Arc<Context>) {
    while !unsynced(context).is_empty() {
        context.synced.notified().await;
    }
    tracing::info!(
        pools = context.pools.len(),
        pods = context.pods.len(),
        claims = context.batches.len() + context.singles.len(),
        "in sync"
    );
    enqueue_all(context);
    let pools = workers(flags.concurrency.of("pool", 16), "pool", &context.pool_queue, context, |context, at| {
        Box::pin(async move { pool::reconcile(&context, &at).await })
    });
    let claims_at_once = flags.concurrency.of("batchsandbox", 32);
    let claims = workers(claims_at_once, "claim", &context.claim_queue, context, |context, at| {
        Box::pin(async move { claim::reconcile(&context, &at).await })
    });
    future::join(pools, claims).await;
}

/// Looks at everything once: Pools and claims by themselves, and Pools that
/// only their Pods tell of.
fn enqueue_all(context: &Context) {
    for held in context.pools.all() {
        context.wake_pool_named(&Key::of(&*held.object));
    }
    enqueue_claims(context, &context.batches);
    enqueue_claims(context, &context.singles);
    for held in context.pods.all() {
        if let Some(uid) = held.object.0.label(labels::POOL_UID)
            && context.pools.by_uid(uid).is_none()
            && context.pods.count(&PodIndex::Pool(uid.to_owned())) > 0
        {
            crate::route::wake_pool_of(context, &held.object.0, uid);
        }
    }
}

fn enqueue_claims<K: crate::store::kinds::ClaimSort>(
    context: &Context,
    store: &Store<crate::store::kinds::ClaimRecord<K>>,
) {
    for held in store.all() {
        context.claim_queue.add(crate::context::ClaimAt::of(&held.object.claim));
    }
}

async fn workers<T>(
    number: usize,
    kind: &'static str,
    queue: &Queue<T>,
    context: &Arc<Context>,
    reconcile: impl Fn(Arc<Context>, T) -> BoxFuture<'static, Outcome> + Clone + Send + 'static,
) where
    T: Clone + Eq + std::hash::Hash + Send + 'static,
{
    let running = (0..number).map(|_| {
        let (queue, context, reconcile) = (queue.clone(), Arc::clone(context), reconcile.clone());
        tokio::spawn(async move {
            while let Some(key) = queue.next().await {
                let start = std::time::Instant::now();
                let outcome = reconcile(Arc::clone(&context), key.clone()).await;
                let result = if outcome == Outcome::Failed { "failed" } else { "ok" };
                context.metrics.reconciles.with_label_values(&[kind, result]).inc();
                context.metrics.reconcile_seconds.with_label_values(&[kind]).observe(start.elapsed().as_secs_f64());
                queue.finish(key, outcome);
            }
        })
    });
    future::join_all(running).await;
}

/// SIGTERM or SIGINT.
struct Stop {
    asked: Arc<std::sync::atomic::AtomicBool>,
    told: Arc<Notify>,
}

impl Stop {
    fn on_signal() -> anyhow::Result<Self> {
        let stop = Self { asked: Arc::default(), told: Arc::default() };
        let (asked, told) = (Arc::clone(&stop.asked), Arc::clone(&stop.told));
        let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
        tokio::spawn(async move {
            tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} }
            tracing::info!("asked to stop: finishing what runs");
            asked.store(true, std::sync::atomic::Ordering::SeqCst);
            told.notify_waiters();
        });
        Ok(stop)
    }

    async fn asked(&self) {
        loop {
            let told = self.told.notified();
            if self.asked.load(std::sync::atomic::Ordering::SeqCst) {
                return;
            }
            told.await;
        }
    }

    /// The result of `work`, or none if the process is asked to stop first.
    async fn unless<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            result = work => Some(result),
            () = self.asked() => None,
        }
    }
}
