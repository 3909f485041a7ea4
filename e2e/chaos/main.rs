//! Two operators, users without rest, and everything that fails at once; then calm, and an audit.
//!
//! `make chaos SEED= MINUTES=`. Which faults strike is decided by the seed; what they meet depends on the machine, too.

mod harm;
mod load;
mod machine;
mod mishaps;
mod pools;
mod replicas;
mod report;
mod storms;
mod tally;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Parser;
use k8s_openapi::jiff::Timestamp;
use kube::Api;
use sandbox_cluster::{PlaneOptions, StandInOptions};
use sandbox_e2e::audit::{Invariant, Record, Violation, World, audit, unsettled};
use sandbox_e2e::{Stage, StageOptions, figure};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use load::Users;
use machine::Probe;
use mishaps::Victims;
use replicas::Replica;
use tally::Tally;

/// All must have settled so long after the faults' end.
const SETTLE: Duration = Duration::from_secs(10);
/// Given up after this: then it never settles.
const GIVE_UP: Duration = Duration::from_secs(60);
/// A leader that was killed leaves a Lease that nobody may take for so long.
const LEASE: Duration = Duration::from_secs(20);
/// It must stay settled.
const STAYS: Duration = Duration::from_secs(4);

/// Two operators under faults, audited.
#[derive(Parser)]
struct Options {
    /// Which faults strike.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long.
    #[arg(long, default_value_t = 4.0)]
    minutes: f64,
    /// Takes the condition on the object's version from every write of the operators: the audit must then find a
    /// violation, and this program fails if it does not.
    #[arg(long)]
    without_versions: bool,
    /// Users also take owner references from Pods. The operator does not put these back yet, so such a Pod outlives its
    /// claim: known, and shown by this.
    #[arg(long)]
    strip_owners: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(&Options::parse()).await {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            figure!("chaos: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Everything of one run.
struct Run {
    seed: u64,
    wrong: bool,
    record: Arc<Record>,
    replicas: Vec<Arc<Replica>>,
    users: Users,
    tally: Tally,
    stage: Stage,
}

async fn run(options: &Options) -> Result<bool> {
    let run = Run::set(options).await?;
    let time = Duration::try_from_secs_f64(options.minutes * 60.0).context("--minutes")?;
    figure!(
        "chaos: seed {}, {:.1} minutes, two operators; logs in {}",
        options.seed,
        options.minutes,
        run.stage.logs().display()
    );
    let early = run.rage(time).await?;
    let settled = match early {
        true => None,
        false => Some(run.settle().await?),
    };
    run.end(settled)
}

impl Run {
    async fn set(options: &Options) -> Result<Self> {
        let (seed, tally) = (options.seed, Tally::default());
        let kubelet = StandInOptions { nodes: 3, ready_after: Duration::from_millis(30), ..StandInOptions::default() };
        let plane = PlaneOptions { stand_in: Some(kubelet), ..PlaneOptions::default() };
        let name = format!("seed-{seed}{}", if options.without_versions { "-without-versions" } else { "" });
        let stage = Stage::start(StageOptions { plane, operator: false, ..StageOptions::named(&name) }).await?;
        let namespace = stage.namespace("chaos").await?;
        let log = stage.logs().join("watch.jsonl");
        let record = Arc::new(Record::start(&stage.admin(), &namespace, &log).await?);
        let upstream = stage.plane().dir().join("operator.kubeconfig");
        let mut replicas = Vec::new();
        for (number, name) in (0..).zip(["first", "second"]) {
            replicas.push(Replica::start(name, &upstream, stage.logs(), seed + number, tally.clone()).await?);
        }
        pools::make(&Api::namespaced(stage.admin(), &namespace)).await?;
        let users = Users::new(&stage.admin(), &namespace, Arc::clone(&record), tally.clone(), options.strip_owners);
        let run = Self { seed, wrong: options.without_versions, record, replicas, users, tally, stage };
        let ready = run.record.until(GIVE_UP, |world| {
            world.pools.len() == pools::COUNT && !world.pods.is_empty() && unsettled(world, Timestamp::now()).is_empty()
        });
        if !ready.await {
            bail!("the Pools were not filled before the faults: {:?}", run.open());
        }
        Ok(run)
    }

    fn open(&self) -> Vec<String> {
        self.record.look(|world| unsettled(world, Timestamp::now()))
    }

    fn victims(&self) -> Result<Victims<'_>> {
        let kubelet = self.stage.plane().stand_in()?;
        Ok(Victims { replicas: &self.replicas, kubelet, record: &self.record, tally: &self.tally })
    }

    /// Faults and load at once. True if a violation was looked for and found before the time was over.
    async fn rage(&self, time: Duration) -> Result<bool> {
        let mut storms = JoinSet::new();
        for replica in &self.replicas {
            storms.spawn(storms::blow(Arc::clone(replica), self.seed, self.tally.clone(), self.wrong));
        }
        let mut supervisors = JoinSet::new();
        for replica in &self.replicas {
            supervisors.spawn(Arc::clone(replica).supervise());
        }
        let victims = self.victims()?;
        let over = tokio::select! {
            done = self.users.act(self.seed) => bail!("the load ended: {done:?}"),
            done = victims.befall(self.seed) => bail!("the mishaps ended: {done:?}"),
            found = self.until_found_out(), if self.wrong => found?,
            () = sleep(time) => false,
        };
        storms.shutdown().await;
        victims.mend().await?;
        if !over {
            // Until the end: an operator that was cut off from its Lease has yet to notice.
            self.calm(supervisors).await?;
        }
        Ok(over)
    }

    async fn until_found_out(&self) -> Result<bool> {
        loop {
            sleep(Duration::from_secs(5)).await;
            // Two of them: the deadline's own condition is one write only, the ledger's are all the others.
            let broken: BTreeSet<_> = audit(&self.record.log()?).iter().map(|found| found.invariant).collect();
            if broken.len() > 1 {
                return Ok(true);
            }
        }
    }

    async fn calm(&self, supervisors: JoinSet<()>) -> Result<()> {
        self.users.make_room().await?;
        self.record.tells("the faults end".into());
        for replica in &self.replicas {
            replica.proxy.heal();
        }
        // They end with the program.
        tokio::spawn(async move { supervisors.join_all().await });
        Ok(())
    }

    /// Waits until all has settled; says when.
    async fn settle(&self) -> Result<Settled> {
        let (ended, now) = (Instant::now(), Timestamp::now());
        let probe = Probe::start(self.stage.admin());
        let course = Mutex::default();
        let reached = timeout(GIVE_UP, self.until_settled(ended, &course)).await.is_ok();
        let took = ended.elapsed();
        let leader = self.record.look(|world| world.leader.clone());
        // A leader that was dead at the faults' end leaves its Lease to run out first.
        let lease = leader.filter(|(_, since)| *since > now).and_then(|(holder, since)| {
            let waited = Duration::try_from(since.duration_since(now)).ok()?;
            Some((self.replicas.iter().find(|replica| replica.was(&holder))?.name.clone(), waited.min(LEASE)))
        });
        let machine = probe.told();
        let open = if reached { Vec::new() } else { self.open() };
        sleep(STAYS).await;
        let relapse = if reached { self.open() } else { Vec::new() };
        let course = course.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Settled { took, course, lease, machine, open: [open, relapse].concat() })
    }

    /// Ends when all has settled; `last` is what had not, each time that changed.
    async fn until_settled(&self, ended: Instant, last: &Mutex<Vec<(Duration, Vec<String>)>>) {
        let settled = |world: &World| {
            let open = unsettled(world, Timestamp::now());
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            if !open.is_empty() && last.last().is_none_or(|(_, before)| *before != open) {
                last.push((ended.elapsed(), open.clone()));
            }
            open.is_empty()
        };
        while !self.record.until(GIVE_UP, settled).await {}
    }

    fn end(&self, settled: Option<Settled>) -> Result<bool> {
        report::tables(&self.tally, &self.replicas);
        report::journals(&self.replicas, self.stage.logs())?;
        let log = self.record.log()?;
        let mut found = audit(&log);
        if let Some(settled) = settled {
            found.extend(settled.violations());
        }
        report::verdict(&log, &found);
        figure!("\nthe raw log: {}", self.record.file().display());
        for replica in &self.replicas {
            figure!("operator {}: {}", replica.name, replica.log().display());
        }
        if self.wrong {
            let seen = found.iter().any(|violation| violation.invariant != Invariant::I5);
            figure!(
                "an operator that writes without versions was {}",
                if seen { "found out" } else { "NOT found out" }
            );
            return Ok(seen);
        }
        Ok(found.is_empty() && log.gaps.is_empty())
    }
}

/// How the run came to rest.
struct Settled {
    took: Duration,
    /// Who took the Lease after the faults' end, and how long that took.
    lease: Option<(String, Duration)>,
    /// How the machine fared.
    machine: String,
    /// What was unsettled when, each time that it changed.
    course: Vec<(Duration, Vec<String>)>,
    open: Vec<String>,
}

impl Settled {
    fn violations(&self) -> Vec<Violation> {
        let waited = self.lease.as_ref().map(|(_, waited)| *waited).unwrap_or_default();
        let took = self.took.saturating_sub(waited);
        match &self.lease {
            Some((name, waited)) => figure!(
                "\nsettled {:.1} s after the faults' end; the leader was dead, the Lease ran out and {name} took it {:.1} s after, so {:.1} s count",
                self.took.as_secs_f64(),
                waited.as_secs_f64(),
                took.as_secs_f64()
            ),
            None => figure!("\nsettled {:.1} s after the faults' end", took.as_secs_f64()),
        }
        figure!("{}", self.machine);
        let unsettled = |says: String| Violation { invariant: Invariant::I5, says, about: Vec::new(), at: None };
        let mut found: Vec<Violation> = self.open.iter().cloned().map(unsettled).collect();
        if took > SETTLE {
            let waited = self.course.iter().filter(|(at, _)| *at > SETTLE || self.course.len() < 20);
            for (at, open) in waited.take(20) {
                let first: Vec<&str> = open.iter().take(4).map(String::as_str).collect();
                let more = open.len().saturating_sub(first.len());
                figure!("  {:.1} s after the faults' end: {}; and {more} more", at.as_secs_f64(), first.join("; "));
            }
            found.push(unsettled(format!("it took {:.1} s to settle, 10 are allowed", took.as_secs_f64())));
        }
        found
    }
}
