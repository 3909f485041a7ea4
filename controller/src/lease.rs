//! Who leads: one Lease, written with the resourceVersion last seen, judged by
//! a monotonic clock.
//!
//! It is the Lease of the operator that this one takes the place of, so the
//! two never act together while one is swapped for the other. A holder stops
//! writing at two thirds of the Lease's time, so that its last request has
//! ended before anybody else may take over; the grant protocol does not rest
//! on that, but on its own tokens.

#![expect(clippy::disallowed_methods, reason = "the Lease is written here")]

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

/// Name of the Lease.
pub const LEASE: &str = "2fa1c467.opensandbox.io";

const DURATION: Duration = Duration::from_secs(15);
const WRITE_UNTIL: Duration = Duration::from_secs(10);
const RENEW: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_secs(2);
const CALL: Duration = Duration::from_secs(3);
/// 2025-01-01, so that seconds since then fit the Lease's 32 bits until 2093.
const EPOCH: i64 = 1_735_689_600;

/// A time in office. Unique to this process start; `number` grows with every
/// taking of the Lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The Lease's `leaseTransitions`: one more than before, or the seconds
    /// since 2025 if that is more, so that it grows even over a deleted Lease.
    pub number: u64,
    /// Random, one for each process start.
    pub process: String,
}

/// What everyone who writes asks.
#[derive(Clone)]
pub struct Leadership {
    until: watch::Receiver<Option<Instant>>,
}

impl Leadership {
    /// Leadership without a Lease, for `--leader-elect=false`.
    #[must_use]
    pub fn unlimited() -> Self {
        let (_, until) = watch::channel(None);
        Self { until }
    }

    /// Whether a write may still be started.
    #[must_use]
    pub fn may_write(&self) -> bool {
        self.until.borrow().is_none_or(|until| Instant::now() < until)
    }
}

/// Term of a process that runs without a Lease: seconds since 2025. It grows
/// with every start as long as the clock does; run one process only.
#[must_use]
pub fn term_without_lease(process: &str) -> Term {
    Term { number: u64::from(seconds_since_epoch().unsigned_abs()), process: process.to_owned() }
}

/// A candidate for the Lease, and after [`Elector::acquire`] its holder.
pub struct Elector {
    api: Api<Lease>,
    process: String,
    seen: Option<(String, Instant)>,
}

/// The Lease as it was last written by its holder, this process.
pub struct Office {
    elector: Elector,
    lease: Lease,
    until: Arc<watch::Sender<Option<Instant>>>,
    /// The term that began.
    pub term: Term,
}

impl Elector {
    /// A candidate named `process` for the Lease in `namespace`.
    #[must_use]
    pub fn new(client: Client, namespace: &str, process: String) -> Self {
        Self { api: Api::namespaced(client, namespace), process, seen: None }
    }

    /// Waits until the Lease is taken.
    pub async fn acquire(mut self) -> (Office, Leadership) {
        loop {
            let sent = Instant::now();
            match timeout(CALL, self.try_take()).await {
                Ok(Ok(Some(lease))) => return self.begin(lease, sent),
                Ok(Ok(None)) => {}
                Ok(Err(error)) => tracing::warn!(%error, "the Lease {LEASE} cannot be taken yet"),
                Err(_) => tracing::warn!("the Lease {LEASE}: no answer from the API server"),
            }
            sleep(RETRY).await;
        }
    }

    fn begin(self, lease: Lease, sent: Instant) -> (Office, Leadership) {
        let number = lease.spec.as_ref().and_then(|spec| spec.lease_transitions).unwrap_or_default();
        let term = Term { number: u64::from(number.unsigned_abs()), process: self.process.clone() };
        let (until, receiver) = watch::channel(Some(sent + WRITE_UNTIL));
        let office = Office { elector: self, lease, until: Arc::new(until), term };
        (office, Leadership { until: receiver })
    }

    /// One attempt: the written Lease if it was free, none if it is held.
    async fn try_take(&mut self) -> kube::Result<Option<Lease>> {
        let taken = match self.api.get_opt(LEASE).await? {
            None => {
                let metadata = ObjectMeta { name: Some(LEASE.to_owned()), ..ObjectMeta::default() };
                let spec = Some(self.spec(None));
                self.api.create(&PostParams::default(), &Lease { metadata, spec }).await
            }
            Some(lease) if self.is_free(&lease) => {
                let spec = Some(self.spec(lease.spec.as_ref()));
                self.api.replace(LEASE, &PostParams::default(), &Lease { spec, ..lease }).await
            }
            Some(_) => return Ok(None),
        };
        match taken {
            Ok(lease) => Ok(Some(lease)),
            // Another candidate was faster.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Released, or not written for its whole time since *we* first saw it so;
    /// clocks of other machines play no part.
    fn is_free(&mut self, lease: &Lease) -> bool {
        let spec = lease.spec.clone().unwrap_or_default();
        if spec.holder_identity.as_deref().unwrap_or_default().is_empty() {
            return true;
        }
        let version = lease.metadata.resource_version.clone().unwrap_or_default();
        let now = Instant::now();
        match &self.seen {
            Some((seen, since)) if *seen == version => {
                let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or_default();
                now.duration_since(*since) > Duration::from_secs(seconds)
            }
            Some(_) | None => {
                self.seen = Some((version, now));
                false
            }
        }
    }

    fn spec(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let number = before.and_then(|spec| spec.lease_transitions).map_or(0, |n| n.saturating_add(1));
        let now = MicroTime(Timestamp::now());
        LeaseSpec {
            holder_identity: Some(self.process.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            lease_transitions: Some(number.max(seconds_since_epoch())),
            acquire_time: Some(now.clone()),
            renew_time: Some(now),
            ..before.cloned().unwrap_or_default()
        }
    }
}

impl Office {
    /// Renews until `stop` ends, then returns for [`Office::release`].
    ///
    /// # Errors
    /// When the Lease is lost; the process must end.
    pub async fn hold(&mut self, stop: impl Future<Output = ()>) -> anyhow::Result<()> {
        tokio::pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => return Ok(()),
                () = sleep(RENEW) => self.renew().await?,
            }
        }
    }

    async fn renew(&mut self) -> anyhow::Result<()> {
        loop {
            let sent = Instant::now();
            match timeout(CALL, self.write(|spec| spec.renew_time = Some(MicroTime(Timestamp::now())))).await {
                Ok(Ok(())) => {
                    self.until.send_replace(Some(sent + WRITE_UNTIL));
                    return Ok(());
                }
                Ok(Err(kube::Error::Api(status))) if status.code == 409 || status.code == 404 => self.reread().await?,
                Ok(Err(error)) => tracing::warn!(%error, "the Lease {LEASE} was not renewed"),
                Err(_) => tracing::warn!("the Lease {LEASE} was not renewed: no answer from the API server"),
            }
            let until = self.until.borrow().unwrap_or(sent);
            anyhow::ensure!(Instant::now() < until, "the Lease {LEASE} could not be renewed in time");
            sleep(Duration::from_secs(1)).await;
        }
    }

    /// Somebody wrote the Lease: an edited label, or a new holder.
    async fn reread(&mut self) -> anyhow::Result<()> {
        match timeout(CALL, self.elector.api.get(LEASE)).await {
            Ok(Ok(lease)) => {
                let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
                anyhow::ensure!(
                    holder == Some(self.elector.process.as_str()),
                    "the Lease {LEASE} was taken by {holder:?}"
                );
                self.lease = lease;
                Ok(())
            }
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => {
                Err(anyhow::anyhow!("the Lease {LEASE} was deleted"))
            }
            Ok(Err(_)) | Err(_) => Ok(()),
        }
    }

    /// Frees the Lease for the next process at once.
    ///
    /// # Errors
    /// When it cannot be written; it then runs out by itself.
    pub async fn release(mut self) -> anyhow::Result<()> {
        self.until.send_replace(Some(Instant::now()));
        let written = timeout(
            CALL,
            self.write(|spec| {
                spec.holder_identity = Some(String::new());
                spec.lease_duration_seconds = Some(1);
            }),
        );
        written.await.context("no answer from the API server")?.context("the Lease was not released")
    }

    async fn write(&mut self, change: impl FnOnce(&mut LeaseSpec)) -> kube::Result<()> {
        let mut lease = self.lease.clone();
        change(lease.spec.get_or_insert_default());
        self.lease = self.elector.api.replace(LEASE, &PostParams::default(), &lease).await?;
        Ok(())
    }
}

fn seconds_since_epoch() -> i32 {
    i32::try_from(Timestamp::now().as_second() - EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests;
