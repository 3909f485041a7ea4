//! An API server that refuses, fails or does not answer: what is tried, how often, and what goes on meanwhile.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use sandbox_api::{BatchSandbox, ConditionStatus, Moment, Pool};
use sandbox_e2e::faults::{Fault, FaultProxy, Refusal, Scope, Verb, Weather};
use sandbox_e2e::objects::{after, capacity, claim, own, pool, template};
use sandbox_e2e::operator::OperatorOptions;
use sandbox_e2e::scene::{SOON, Scene};
use sandbox_e2e::{Operator, Outcome, Stage, StageOptions, figure, on_own_stage, until, until_gone};
use serde_json::{Value, json};

/// How late a sandbox may end.
const LATE: Duration = Duration::from_secs(2);

/// The operator, behind a proxy that sees and fails its requests.
struct Watched {
    proxy: FaultProxy,
    _operator: Operator,
}

impl Watched {
    async fn start(stage: &Stage) -> Result<Self> {
        let proxy = proxy(stage).await?;
        let operator = behind(&proxy, stage).await?;
        Ok(Self { proxy, _operator: operator })
    }

    fn asked(&self, what: &str) -> Vec<Duration> {
        asked(&self.proxy, what)
    }

    async fn until_asked(&self, what: &str, times: usize) -> Result<Vec<Duration>> {
        until_asked(&self.proxy, what, times).await
    }
}

async fn proxy(stage: &Stage) -> Result<FaultProxy> {
    FaultProxy::start("watched", &stage.plane().dir().join("operator.kubeconfig"), 1).await
}

async fn behind(proxy: &FaultProxy, stage: &Stage) -> Result<Operator> {
    let options = OperatorOptions { name: "watched".into(), ..OperatorOptions::new(proxy.kubeconfig(), stage.logs()) };
    Operator::start(&options).await
}

/// When this was asked so far, by the proxy's journal.
fn asked(proxy: &FaultProxy, what: &str) -> Vec<Duration> {
    proxy.journal().iter().filter(|entry| entry.asked == what).map(|entry| entry.at).collect()
}

/// Waits until this was asked so often.
async fn until_asked(proxy: &FaultProxy, what: &str, times: usize) -> Result<Vec<Duration>> {
    until_answer(what, async || asked(proxy, what).len() >= times).await?;
    Ok(asked(proxy, what))
}

/// Writes that were asked for so far, but for those of the Lease.
fn writes(proxy: &FaultProxy) -> Vec<String> {
    let asked = proxy.journal().into_iter().map(|entry| entry.asked);
    let writes =
        |asked: &String| ["create ", "patch ", "replace ", "delete "].iter().any(|verb| asked.starts_with(verb));
    asked.filter(writes).filter(|asked| !asked.contains(" leases ")).collect()
}

fn alone(name: &str) -> StageOptions {
    StageOptions { operator: false, ..StageOptions::named(name) }
}

/// A policy that refuses these operations on this resource where the expression says so.
struct Policy {
    policies: Api<ValidatingAdmissionPolicy>,
    name: String,
}

impl Policy {
    async fn refuse(client: Client, name: &str, resource: (&str, &str, &str), when: &str, words: &str) -> Result<Self> {
        let (group, resource, operation) = resource;
        let (policies, bindings) = (Api::all(client.clone()), Api::all(client));
        let rules =
            json!([{ "apiGroups": [group], "apiVersions": ["*"], "resources": [resource], "operations": [operation] }]);
        let policy: ValidatingAdmissionPolicy = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": {
                "failurePolicy": "Fail",
                "matchConstraints": { "resourceRules": rules },
                "validations": [{ "expression": format!("!({when})"), "message": words }],
            },
        }))?;
        let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(json!({
            "metadata": { "name": name },
            "spec": { "policyName": name, "validationActions": ["Deny"] },
        }))?;
        policies.create(&PostParams::default(), &policy).await.context("make a policy")?;
        bindings.create(&PostParams::default(), &binding).await.context("bind a policy")?;
        Ok(Self { policies, name: name.into() })
    }

    async fn lift(self) -> Result<()> {
        self.policies.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }
}

/// Asks until the answer is the one that is waited for: nothing tells when an API server has taken a policy up.
async fn until_answer(what: &str, answer: impl AsyncFn() -> bool) -> Result<()> {
    let asking = async {
        while !answer().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(SOON, asking).await.with_context(|| format!("never: {what}"))
}

fn ends_in(name: &str, time: Duration) -> (BatchSandbox, Timestamp) {
    let mut asking = claim(name, "p");
    let deadline: Moment = after(time);
    asking.spec.expire_time = Some(deadline.clone());
    (asking, deadline.at())
}

async fn ends_in_time(scene: &Scene, made: &BatchSandbox, deadline: Timestamp) -> Result<()> {
    until_gone(&scene.claims, &made.name_any(), &made.uid().unwrap_or_default(), SOON).await?;
    let late = Timestamp::now().duration_since(deadline);
    figure!("{} ended {late} after its deadline", made.name_any());
    ensure!(late <= LATE.try_into()?, "{} ended {late} late", made.name_any());
    Ok(())
}

fn status() -> Patch<Value> {
    Patch::Merge(json!({ "status": { "observedGeneration": 1 } }))
}

#[test]
fn a_claim_whose_status_is_refused_for_ever_ends_at_its_deadline_and_is_tried_ever_more_rarely() -> Outcome {
    on_own_stage(alone("refused-status"), async |stage| {
        let scene = Scene::set(stage, "refused-status").await?;
        let watched = Watched::start(stage).await?;
        scene.pool(&pool("p", capacity(2, 2, 5))).await?;
        let resource = ("sandbox.opensandbox.io", "batchsandboxes/status", "UPDATE");
        let when = "object.metadata.name.startsWith('stuck')";
        Policy::refuse(stage.admin(), "no-status", resource, when, "not this one").await?;
        scene.claims.create(&PostParams::default(), &claim("stuck-probe", "none")).await?;
        let dry = PatchParams { dry_run: true, ..PatchParams::default() };
        until_answer("the policy is in force", async || {
            let answer = scene.claims.patch_status("stuck-probe", &dry, &status()).await;
            answer.is_err_and(|error| error.to_string().contains("not this one"))
        })
        .await?;

        let (asking, deadline) = ends_in("stuck", Duration::from_secs(10));
        let made = scene.claims.create(&PostParams::default(), &asking).await?;
        // Others are served meanwhile.
        scene.runs(&claim("other", "p")).await?;
        ends_in_time(&scene, &made, deadline).await?;
        let namespace = made.namespace().unwrap_or_default();
        let tries = watched.asked(&format!("patch batchsandboxes/status {namespace}/stuck")).len();
        figure!("{tries} writes of its status were tried in 10 s");
        ensure!((2..=8).contains(&tries), "{tries} tries in 10 s");
        Ok(())
    })
}

#[test]
fn a_deadline_waits_for_no_status_write_that_hangs() -> Outcome {
    on_own_stage(alone("hanging-status"), async |stage| {
        let scene = Scene::set(stage, "hanging").await?;
        let watched = Watched::start(stage).await?;
        scene.pool(&pool("p", capacity(2, 2, 5))).await?;
        let hour = Duration::from_secs(3_600);
        let statuses = Scope::of(&[Verb::Patch], &["batchsandboxes/status"]);
        watched.proxy.set(Weather::of(statuses, 100, Fault::Delay(hour, hour)));
        let (asking, deadline) = ends_in("hangs", Duration::from_secs(3));
        let made = scene.claims.create(&PostParams::default(), &asking).await?;
        ends_in_time(&scene, &made, deadline).await?;
        watched.proxy.heal();
        Ok(())
    })
}

/// Whether the Pool is not ready, in these words.
fn says(words: &'static str) -> impl Fn(&Pool) -> bool {
    move |pool| {
        let mut conditions = pool.status.iter().flat_map(|status| &status.conditions);
        conditions.any(|it| {
            it.status == ConditionStatus::False && it.message.as_ref().is_some_and(|text| text.contains(words))
        })
    }
}

#[test]
fn a_pool_whose_pods_are_refused_says_why_tries_ever_more_rarely_and_fills_once_they_are_not() -> Outcome {
    on_own_stage(alone("refused-pods"), async |stage| {
        let scene = Scene::set(stage, "refused-pods").await?;
        let watched = Watched::start(stage).await?;
        let when = "has(object.metadata.labels) && 'unwanted' in object.metadata.labels";
        let policy =
            Policy::refuse(stage.admin(), "no-pods", ("", "pods", "CREATE"), when, "no such pods here").await?;
        let mut refused = template();
        refused["metadata"]["labels"]["unwanted"] = json!("yes");
        let mut probe: Pod = serde_json::from_value(refused.clone())?;
        probe.metadata.name = Some("probe".into());
        let dry = PostParams { dry_run: true, ..PostParams::default() };
        until_answer("the policy is in force", async || {
            let answer = scene.pods.create(&dry, &probe).await;
            answer.is_err_and(|error| error.to_string().contains("no such pods here"))
        })
        .await?;

        let mut wanted = pool("p", capacity(1, 1, 3));
        wanted.spec.template = Some(refused);
        let made = scene.pools.create(&PostParams::default(), &wanted).await?;
        until(&scene.pools, "p", "says why", SOON, says("no such pods here")).await?;
        let creations = format!("create pods {}/", made.namespace().unwrap_or_default());
        let tries = watched.until_asked(&creations, 4).await?;
        for (number, pair) in tries.windows(2).enumerate() {
            let gap = pair[1] - pair[0];
            let least = Duration::from_millis(900 << number.min(2));
            ensure!(gap >= least, "try {} came {gap:?} after the one before: {tries:?}", number + 2);
        }
        policy.lift().await?;
        scene.until_available("p", 1).await?;
        Ok(())
    })
}

#[test]
fn creations_that_fail_with_500_are_not_tried_in_a_circle_and_succeed_once_they_can() -> Outcome {
    on_own_stage(alone("failed-pods"), async |stage| {
        let scene = Scene::set(stage, "failed-pods").await?;
        let watched = Watched::start(stage).await?;
        let creates = Scope::of(&[Verb::Create], &["pods"]);
        watched.proxy.set(Weather::of(creates, 100, Fault::Refuse(Refusal::Internal)));
        scene.pools.create(&PostParams::default(), &pool("p", capacity(1, 1, 3))).await?;
        let made = scene.claims.create(&PostParams::default(), &own("own", 1)).await?;
        let creations = format!("create pods {}/", made.namespace().unwrap_or_default());
        // The Pool's slot and the claim each try at 0, 0.2, 0.6, 1.4, 3 and 6.2 s, and then every 5 s: so long, at the most, does
        // anybody wait once the API server is well again.
        let tries = watched.until_asked(&creations, 12).await?;
        let took = tries[11] - tries[0];
        figure!("12 creations that failed took {took:?}");
        ensure!(took >= Duration::from_secs(6), "12 creations were tried within {took:?}");
        watched.proxy.heal();
        scene.until_available("p", 1).await?;
        scene.still_runs("own").await?;
        Ok(())
    })
}

#[test]
fn a_new_leader_that_cannot_list_writes_nothing_that_rests_on_a_list() -> Outcome {
    on_own_stage(StageOptions::named("failed-lists"), async |stage| {
        let scene = Scene::set(stage, "failed-lists").await?;
        scene.pool(&pool("p", capacity(2, 2, 6))).await?;
        let held = scene.runs(&claim("before", "p")).await?;
        stage.kill_operator().await;
        let proxy = proxy(stage).await?;
        let failing = |resources: &[&str]| {
            Weather::of(Scope::of(&[Verb::List], resources), 100, Fault::Refuse(Refusal::Internal))
        };
        proxy.set(failing(&[]));
        // Work for it: a claim that waits.
        scene.claims.create(&PostParams::default(), &claim("after", "p")).await?;
        let watching = async {
            until_asked(&proxy, "list pools /", 3).await?;
            ensure!(writes(&proxy).is_empty(), "{:?}", writes(&proxy));
            proxy.set(failing(&["pods"]));
            until_asked(&proxy, "list pods /", 3).await?;
            let beyond: Vec<_> =
                writes(&proxy).into_iter().filter(|it| !it.starts_with("patch pools/status ")).collect();
            ensure!(beyond.is_empty(), "{beyond:?}");
            proxy.heal();
            Ok(())
        };
        let (operator, watched) = tokio::join!(behind(&proxy, stage), watching);
        watched?;
        let _operator = operator?;
        let after = scene.still_runs("after").await?;
        ensure!(after != held && scene.still_runs("before").await? == held);
        Ok(())
    })
}
