//! From a fresh machine to a running sandbox: `make demo`.
//!
//! Brings a Kubernetes node up, runs operator and server on it with a real deployment's config and Pools, gets two
//! sandboxes, runs commands in them, ends them, and says how long each step took.

mod kubectl;
mod sandboxes;
mod show;

use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use sandbox_cluster::home;
use sandbox_e2e::program::find;
use sandbox_e2e::sdk::Sdk;
use sandbox_e2e::site::{self, Cluster, Site};

use kubectl::Kubectl;
use sandboxes::Client;
use show::{Show, aloud, say};

#[tokio::main]
async fn main() -> ExitCode {
    match demo().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("\nThe demo stopped: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

async fn demo() -> Result<()> {
    let mut show = Show::begin();
    let cluster = node(&mut show).await?;
    show.step("The Python SDK", "opensandbox 1.1.1 from PyPI into the cache, unmodified");
    let sdk = Sdk::install()?;
    let kubectl = Kubectl::new(&cluster)?;

    show.step("Our kinds and rights", "Pool, BatchSandbox, Sandbox, SandboxSnapshot; roles of operator and server");
    let known = cluster.has_kinds().await?;
    if known {
        kubectl.clear_earlier_run().await?;
    }
    kubectl.shown(&["apply", "--server-side", "-k", "config/namespaces", "-o", "name"])?;
    kubectl.shown(&["apply", "--server-side", "-k", "config/crd", "-o", "name"])?;
    kubectl.shown(&["apply", "--server-side", "-k", "config/rbac", "-o", "name"])?;
    if site::install(&cluster, known).await? {
        say(
            "   the node's controllers were started anew: its garbage collector would learn of new kinds after half a minute",
        );
    }

    show.step(
        "Operator and server",
        "as two processes of this machine, the server with the deployment's config.toml as it is",
    );
    let site = Site::start(&cluster, "demo").await?;
    let client = Client::new(&site.server.address(), &sdk);
    say(&format!("   the server answers at http://{}; logs are in {}", site.server.address(), site.logs.display()));

    let outcome = story(&mut show, &cluster, &kubectl, &client).await;
    let outcome = outcome.with_context(|| format!("operator and server logged to {}", site.logs.display()));
    site.stop();
    outcome?;
    show.table();
    say(
        "\nThe cluster still runs: look around with `make kubectl ARGS='get pods -A'`, take it away with `make cluster-down`.",
    );
    Ok(())
}

async fn node(show: &mut Show) -> Result<Cluster> {
    show.step(
        "A Kubernetes node on this machine",
        "API server, kubelet, containerd and a registry; built once, then cached",
    );
    aloud("sandbox-cluster up", Command::new(find("sandbox-cluster", "sandbox-cluster")?).arg("up"))?;
    show.step("The images that the Pools name", "built here, nothing is pulled from outside");
    aloud(
        "sandbox-images build-and-push",
        Command::new(find("sandbox-images", "sandbox-images")?).arg("build-and-push"),
    )?;
    Cluster::in_use().await
}

async fn story(show: &mut Show, cluster: &Cluster, kubectl: &Kubectl<'_>, client: &Client<'_>) -> Result<()> {
    let seeds = home::checkout().join("e2e/seeds/pools.yaml");
    show.step("The deployment's Pools, unchanged", "ci-pod and ci-vm keep no Pod until somebody asks");
    kubectl.shown(&["apply", "-f", &seeds.strip_prefix(home::checkout())?.display().to_string()])?;
    kubectl.until_pools_at_zero().await?;
    kubectl.look()?;

    show.step("A sandbox from ci-pod, by curl", "a cold start: the Pool had no Pod");
    let by_curl = client.create("ci-pod")?;
    let first = kubectl.sandbox(&by_curl).await?;
    kubectl.look()?;

    show.step("echo in it, by the Python SDK", "in the sandbox that curl made");
    client.echo(&by_curl, "hello from ci-pod")?;

    show.step(
        "A sandbox from ci-vm, by the Python SDK, and echo in it",
        "its Pods run under the RuntimeClass kata-clh-runtime-rs",
    );
    let by_sdk = client.create_and_echo("ci-vm", "hello from ci-vm")?;
    let second = kubectl.sandbox(&by_sdk).await?;
    kubectl.runtime_class(&second, "kata-clh-runtime-rs").await?;
    kubectl.look()?;

    show.step("Their end", "DELETE, and object and Pod are gone");
    for (id, pod) in [(&by_curl, &first), (&by_sdk, &second)] {
        client.delete(id)?;
        kubectl.until_gone(id, pod).await?;
    }
    kubectl.look()?;

    show.step("Tidy up", "the Pools go, and their Pods with them");
    kubectl.shown(&["delete", "-f", &seeds.strip_prefix(home::checkout())?.display().to_string()])?;
    kubectl::until_no_pods(cluster).await
}
