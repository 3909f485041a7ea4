//! The proxy itself: each fault is what it says, seen by a client.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, PostParams, Preconditions, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use sandbox_cluster::kubeconfig;
use sandbox_e2e::faults::{Fault, FaultProxy, Moment, Refusal, Scope, Verb, Weather};
use sandbox_e2e::scene::SOON;
use sandbox_e2e::{Outcome, on_stage};

struct Through {
    proxy: FaultProxy,
    client: Client,
    maps: Api<ConfigMap>,
    direct: Api<ConfigMap>,
}

async fn through(stage: &sandbox_e2e::Stage, name: &str) -> Result<Through> {
    let namespace = stage.namespace(name).await?;
    let proxy = FaultProxy::start(name, &stage.plane().kubeconfig(), 1).await?;
    let client = kubeconfig::client(&std::fs::read_to_string(proxy.kubeconfig())?).await?;
    let maps = Api::namespaced(client.clone(), &namespace);
    Ok(Through { proxy, client, maps, direct: Api::namespaced(stage.admin(), &namespace) })
}

fn map(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

fn creates() -> Scope {
    Scope::of(&[Verb::Create], &["configmaps"])
}

#[test]
fn a_lost_answer_is_of_a_write_that_took_effect_and_a_refused_write_did_not() -> Outcome {
    on_stage(async |stage| {
        let it = through(stage, "lost").await?;
        it.maps.create(&PostParams::default(), &map("unharmed")).await?;
        it.proxy.set(Weather::of(creates(), 100, Fault::LoseAnswer));
        let lost = it.maps.create(&PostParams::default(), &map("lost")).await;
        ensure!(!matches!(lost, Ok(_) | Err(kube::Error::Api(_))), "{lost:?}");
        ensure!(it.direct.get_opt("lost").await?.is_some(), "it took no effect");
        it.proxy.set(Weather::of(creates(), 100, Fault::HideAnswer));
        let hidden = it.maps.create(&PostParams::default(), &map("hidden")).await;
        ensure!(matches!(&hidden, Err(kube::Error::Api(status)) if status.code == 500), "{hidden:?}");
        ensure!(it.direct.get_opt("hidden").await?.is_some(), "it took no effect");
        for refusal in [Refusal::TooManyRequests, Refusal::Internal, Refusal::Unavailable] {
            it.proxy.set(Weather::of(creates(), 100, Fault::Refuse(refusal)));
            let refused = it.maps.create(&PostParams::default(), &map("refused")).await;
            ensure!(
                matches!(&refused, Err(kube::Error::Api(status)) if status.code == refusal.code()),
                "{refusal:?}: {refused:?}"
            );
            ensure!(it.direct.get_opt("refused").await?.is_none(), "{refusal:?}: it took effect");
        }
        let (passed, counts) = it.proxy.counts();
        ensure!(passed >= 1 && counts.values().sum::<u64>() == 5, "{counts:?}");
        Ok(())
    })
}

#[test]
fn a_late_write_lands_though_its_sender_has_gone() -> Outcome {
    on_stage(async |stage| {
        let it = through(stage, "late").await?;
        let hour = Duration::from_secs(3_600);
        it.proxy.set(Weather::of(creates(), 100, Fault::Late(hour, hour)));
        let params = PostParams::default();
        let (early, late) = (map("early"), map("late"));
        let gone = tokio::time::timeout(Duration::from_millis(300), it.maps.create(&params, &late)).await;
        ensure!(gone.is_err(), "it was answered: {gone:?}");
        it.direct.create(&params, &early).await?;
        ensure!(it.direct.get_opt("late").await?.is_none(), "it landed at once");
        // The end of the faults sends what is still on its way.
        it.proxy.heal();
        sandbox_e2e::until(&it.direct, "late", "it landed", SOON, |_| true).await?;
        let order = |map: &ConfigMap| map.resource_version().and_then(|version| version.parse::<u64>().ok());
        ensure!(order(&it.direct.get("late").await?) > order(&it.direct.get("early").await?));
        Ok(())
    })
}

#[test]
fn a_frozen_watch_shows_later_what_happened_and_a_cut_one_breaks() -> Outcome {
    on_stage(async |stage| {
        let it = through(stage, "frozen").await?;
        let version = it.direct.list(&ListParams::default()).await?.metadata.resource_version.context("no version")?;
        let mut events = Box::pin(it.maps.watch(&WatchParams::default(), &version).await?);
        it.direct.create(&PostParams::default(), &map("seen")).await?;
        let first = tokio::time::timeout(SOON, events.try_next()).await??;
        ensure!(matches!(&first, Some(WatchEvent::Added(map)) if map.name_any() == "seen"), "{first:?}");

        it.proxy.set(Weather { frozen: vec!["configmaps".into()], ..Weather::default() });
        it.direct.create(&PostParams::default(), &map("unseen")).await?;
        let nothing = tokio::time::timeout(Duration::from_millis(500), events.try_next()).await;
        ensure!(nothing.is_err(), "a frozen watch showed {nothing:?}");
        it.maps.get("unseen").await.context("only watches are frozen")?;
        it.proxy.heal();
        let then = tokio::time::timeout(SOON, events.try_next()).await??;
        ensure!(matches!(&then, Some(WatchEvent::Added(map)) if map.name_any() == "unseen"), "{then:?}");

        it.proxy.cut_watches();
        let end = tokio::time::timeout(SOON, events.try_next()).await?;
        ensure!(!matches!(end, Ok(Some(_))), "a cut watch showed {end:?}");

        let short = Duration::from_millis(100);
        let watches = Scope::of(&[Verb::Watch], &["configmaps"]);
        it.proxy.set(Weather::of(watches, 100, Fault::ExpireWatch(short, short)));
        let mut events = Box::pin(it.maps.watch(&WatchParams::default(), &version).await?);
        let expired = async {
            while let Some(event) = events.try_next().await? {
                if let WatchEvent::Error(status) = event {
                    return Ok(Some(status.code));
                }
            }
            Ok::<_, kube::Error>(None)
        };
        let code = tokio::time::timeout(SOON, expired).await??;
        ensure!(code == Some(410), "{code:?}");
        Ok(())
    })
}

#[test]
fn a_partition_holds_what_is_asked_and_a_delay_passes_it_later() -> Outcome {
    on_stage(async |stage| {
        let it = through(stage, "partition").await?;
        it.maps.list(&ListParams::default()).await?;
        it.proxy.set(Weather { partitioned: true, ..Weather::default() });
        let params = PostParams::default();
        let (held, delayed) = (map("held"), map("delayed"));
        let mut asked = Box::pin(it.maps.create(&params, &held));
        let nothing = tokio::time::timeout(Duration::from_millis(300), &mut asked).await;
        ensure!(nothing.is_err() && it.direct.get_opt("held").await?.is_none(), "it passed");
        it.proxy.heal();
        tokio::time::timeout(SOON, asked).await??;

        let time = Duration::from_millis(300);
        it.proxy.set(Weather::of(creates(), 100, Fault::Delay(time, time)));
        let begun = Instant::now();
        it.maps.create(&params, &delayed).await?;
        ensure!(begun.elapsed() >= time, "only {:?}", begun.elapsed());
        Ok(())
    })
}

#[test]
fn an_ambush_stops_its_sender_before_or_after_the_write() -> Outcome {
    on_stage(async |stage| {
        let it = through(stage, "ambush").await?;
        for (moment, name, there) in [(Moment::Before, "before", false), (Moment::After, "after", true)] {
            let waiting = it.proxy.ambush(moment, 2, |asked| asked.verb == Verb::Create);
            it.maps.create(&PostParams::default(), &map(&format!("{name}-first"))).await?;
            let (params, second) = (PostParams::default(), map(name));
            let create = it.maps.create(&params, &second);
            let caught = tokio::select! {
                answered = create => anyhow::bail!("it was answered: {answered:?}"),
                caught = waiting.caught() => caught?,
            };
            ensure!(caught.asked.resource == "configmaps", "{}", caught.asked);
            ensure!(it.direct.get_opt(name).await?.is_some() == there, "{moment:?}");
            it.proxy.heal();
        }
        Ok(())
    })
}

#[test]
fn without_versions_a_delete_goes_through_whatever_happened_since() -> Outcome {
    on_stage(async |stage| {
        let it = through(stage, "unconditional").await?;
        let made = it.maps.create(&PostParams::default(), &map("a")).await?;
        let stale = Preconditions { uid: made.uid(), resource_version: Some("1".into()) };
        let params = DeleteParams::default().preconditions(stale);
        let refused = it.maps.delete("a", &params).await;
        ensure!(matches!(&refused, Err(kube::Error::Api(status)) if status.code == 409), "{refused:?}");
        it.proxy.set(Weather { without_versions: true, ..Weather::default() });
        it.maps.delete("a", &params).await?;
        ensure!(it.direct.get_opt("a").await?.is_none());
        let mut lines = it.client.request_stream(http::Request::get("/version").body(Vec::new())?).await?.lines();
        ensure!(lines.try_next().await?.is_some());
        Ok(())
    })
}
