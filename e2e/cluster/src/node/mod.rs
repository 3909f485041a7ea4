//! The whole node: a Kubernetes with kubelet, containerd, Services, names and a registry. One a machine.

mod components;
mod config;
mod holder;
mod network;
mod objects;
mod pause;
mod places;
mod shell;
mod sweep;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use http::Request;
use k8s_openapi::api::core::v1::{Node as NodeObject, ServiceAccount};
use kube::Client;
use kube::api::Api;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::binaries::{self, Binary};
use crate::control_plane::{Layout, NODE_ADDRESS};
use crate::home;
use crate::kubeconfig;
use crate::pki::Authority;
use crate::plane::unready;
use crate::ports::Port;
use crate::requirements::{self, Purpose};
use crate::wait::{Probe, Step, until};
use components::{Component, containerd_answers};
use holder::Holder;
use places::{CONTAINERD_USUAL, NODE, Places, cni_plugins, containerd_socket};

const LIMIT: Duration = Duration::from_secs(180);
const CONTROLLERS_GRACE: Duration = Duration::from_secs(3);

/// Brings the node up, or heals it, or finds it up; returns the administrator's kubeconfig.
///
/// # Errors
/// When something is missing on the machine, when another checkout holds the node, or when a part
/// does not become ready; each with what to do.
pub async fn up() -> Result<PathBuf> {
    requirements::check(Purpose::Node)?;
    tokio::task::spawn_blocking(|| binaries::ensure(Binary::NODE)).await??;
    let _lock = holder::lock()?;
    let places = Places::of_checkout()?;
    let plugins = cni_plugins().context("the CNI plugins are missing: apt-get install containernetworking-plugins")?;
    let image = pause::image()?;
    let files = config::files(&places, &plugins, &image)?;
    let made_from = made_from(&files);
    let holder = match settle(&places, &made_from)? {
        Some(holder) => holder,
        None => prepare(&places, files, made_from)?,
    };
    let layout = places.layout(holder.etcd_ports[0], holder.etcd_ports[1]);
    start(&places, &layout, &image).await?;
    Ok(places.kubeconfig())
}

fn made_from(files: &[config::File]) -> String {
    let mut parts: Vec<Vec<u8>> = files.iter().map(|file| file.text.clone().into_bytes()).collect();
    parts.extend(Binary::NODE.iter().map(|binary| binary.path().as_os_str().as_encoded_bytes().to_vec()));
    home::digest(&parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// What an earlier node means for this one: Some when it is ours and goes on.
fn settle(places: &Places, made_from: &str) -> Result<Option<Holder>> {
    let Some(earlier) = Holder::read()? else {
        if sweep::leftovers() {
            bail!(
                "containers of an earlier node run, but its record is gone; end the containerd-shim processes by pid"
            );
        }
        return Ok(None);
    };
    let runs = !earlier.running().is_empty();
    if runs && earlier.checkout != home::checkout() {
        bail!(
            "the whole node of this machine is held by {0}; end it there (cd {0} && make cluster-down), or from here: \
             sandbox-cluster down --force",
            earlier.checkout.display()
        );
    }
    if runs && earlier.made_from == made_from && earlier.dir == places.dir {
        return Ok(Some(earlier));
    }
    eprintln!(
        "- {}",
        if runs { "the running node was made from other versions" } else { "an earlier node ended abruptly" }
    );
    sweep::sweep(&earlier)?;
    Ok(None)
}

/// Writes everything that the processes read.
fn prepare(places: &Places, files: Vec<config::File>, made_from: String) -> Result<Holder> {
    refuse_taken_port(places)?;
    let ports = [Port::take()?, Port::take()?];
    let holder = Holder {
        checkout: home::checkout(),
        dir: places.dir.clone(),
        made_from,
        etcd_ports: [ports[0].number(), ports[1].number()],
        registry_port: places.registry_port,
        before: network::Before::read()?,
    };
    holder.write()?;
    if let Err(error) = fs::remove_dir_all(&places.dir)
        && error.kind() != std::io::ErrorKind::NotFound
    {
        return Err(error).with_context(|| format!("remove the old {}", places.dir.display()));
    }
    for dir in [&places.registry_data, &places.pod_logs(), &places.kubelet()] {
        fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    }
    for file in files {
        let path = places.config(file.name);
        fs::create_dir_all(path.parent().unwrap_or(&path))?;
        fs::write(&path, file.text).with_context(|| format!("write {}", path.display()))?;
    }
    let layout = places.layout(holder.etcd_ports[0], holder.etcd_ports[1]);
    identities(&layout)?;
    Ok(holder)
}

fn identities(layout: &Layout) -> Result<()> {
    let authority = Authority::create()?;
    layout.prepare(&authority)?;
    let names = [NODE_ADDRESS.to_string(), NODE.to_owned()];
    authority.server(&format!("system:node:{NODE}"), &names)?.write(&layout.dir.join("pki"), "kubelet")?;
    layout.write_kubeconfig(&authority, "kubelet", &format!("system:node:{NODE}"), Some("system:nodes"))?;
    layout.write_kubeconfig(&authority, "proxy", "system:kube-proxy", None)?;
    layout.write_kubeconfig(&authority, "dns", "system:coredns", None)
}

fn refuse_taken_port(places: &Places) -> Result<()> {
    let port = places.registry_port;
    if std::net::TcpListener::bind(("127.0.0.1", port)).is_err() {
        bail!(
            "port {port} of 127.0.0.1 is taken, and the registry needs it; end what listens there (ss -ltnp), \
             a service of Debian by: systemctl disable --now docker-registry; or choose another by SANDBOX_REGISTRY_PORT"
        );
    }
    Ok(())
}

async fn start(places: &Places, layout: &Layout, image: &str) -> Result<()> {
    let step = Step::begin("start etcd, registry, containerd, API server");
    network::set_up()?;
    for component in
        [Component::Etcd, Component::Registry, Component::RegistryDoor, Component::Containerd, Component::ApiServer]
    {
        component.ensure(places, layout)?;
    }
    await_registry(places).await?;
    pause::push(places, image)?;
    await_containerd(places).await?;
    let admin = kubeconfig::client(&fs::read_to_string(places.kubeconfig())?).await?;
    await_api(places, &admin).await?;
    step.done();

    let step = Step::begin("start controllers, scheduler, names, Services, kubelet");
    for component in Component::ALL {
        component.ensure(places, layout)?;
    }
    objects::apply(&admin, places).await?;
    await_node(places, &admin).await?;
    await_dns(places).await?;
    await_account(&admin).await?;
    step.done();
    Ok(())
}

async fn await_registry(places: &Places) -> Result<()> {
    until("the registry", LIMIT, || async {
        Component::Registry.check(places)?;
        Ok(match get(&places.registry(), "/v2/").await {
            Ok(answer) if answer.contains(" 200 ") => Probe::Done(()),
            Ok(answer) => Probe::NotYet(answer),
            Err(error) => Probe::NotYet(error.to_string()),
        })
    })
    .await
}

async fn await_containerd(places: &Places) -> Result<()> {
    until("containerd", LIMIT, || async {
        Component::Containerd.check(places)?;
        let answers = containerd_answers().await;
        Ok(if answers { Probe::Done(()) } else { Probe::NotYet("its socket does not answer".into()) })
    })
    .await?;
    let usual = Path::new(CONTAINERD_USUAL);
    if !usual.exists() {
        fs::create_dir_all(usual.parent().unwrap_or(usual))?;
        // Dangling since an earlier node, or absent.
        let _ = fs::remove_file(usual);
        symlink(containerd_socket(), usual).with_context(|| format!("link {}", usual.display()))?;
    }
    Ok(())
}

async fn await_api(places: &Places, admin: &Client) -> Result<()> {
    until("the API server", LIMIT, || async {
        Component::Etcd.check(places)?;
        Component::ApiServer.check(places)?;
        Ok(match admin.request_text(Request::get("/readyz").body(Vec::new())?).await {
            Ok(_) => Probe::Done(()),
            Err(error) => Probe::NotYet(unready(&error)),
        })
    })
    .await
}

async fn await_node(places: &Places, admin: &Client) -> Result<()> {
    let nodes: Api<NodeObject> = Api::all(admin.clone());
    until("the node to be Ready", LIMIT, || async {
        Component::ALL.iter().try_for_each(|component| component.check(places))?;
        let Some(node) = nodes.get_opt(NODE).await? else {
            return Ok(Probe::NotYet("the kubelet has not registered it".into()));
        };
        let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
        let ready = conditions.into_iter().find(|condition| condition.type_ == "Ready");
        let tainted = node.spec.and_then(|spec| spec.taints).is_some_and(|taints| !taints.is_empty());
        Ok(match ready {
            Some(condition) if condition.status == "True" && !tainted => Probe::Done(()),
            Some(condition) => Probe::NotYet(condition.message.unwrap_or_default()),
            None => Probe::NotYet("it has no Ready condition".into()),
        })
    })
    .await
}

async fn await_dns(places: &Places) -> Result<()> {
    until("CoreDNS", LIMIT, || async {
        Component::Dns.check(places)?;
        Ok(match get(&format!("{NODE_ADDRESS}:8181"), "/ready").await {
            Ok(answer) if answer.contains(" 200 ") => Probe::Done(()),
            Ok(answer) => Probe::NotYet(answer),
            Err(error) => Probe::NotYet(error.to_string()),
        })
    })
    .await
}

async fn await_account(admin: &Client) -> Result<()> {
    let accounts: Api<ServiceAccount> = Api::namespaced(admin.clone(), "default");
    until("the default service account", LIMIT, || async {
        let found = accounts.get_opt("default").await?.is_some();
        Ok(if found { Probe::Done(()) } else { Probe::NotYet("the controller manager has not made it".into()) })
    })
    .await
}

/// The status line of a GET.
async fn get(address: &str, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.lines().next().unwrap_or_default().to_owned())
}

/// Takes the node away. `force`: also one that another checkout holds. `purge`: the registry's
/// images too.
///
/// # Errors
/// When another checkout holds it, or something is left.
pub fn down(force: bool, purge: bool) -> Result<()> {
    requirements::check(Purpose::Down)?;
    let _lock = holder::lock()?;
    match Holder::read()? {
        None => eprintln!("- no node runs on this machine"),
        Some(holder) if holder.checkout != home::checkout() && !force && !holder.running().is_empty() => {
            bail!(
                "the node is held by {}; to end it all the same: sandbox-cluster down --force",
                holder.checkout.display()
            )
        }
        Some(holder) => sweep::sweep(&holder)?,
    }
    if purge {
        let data = Places::of_checkout()?.registry_data;
        if data.exists() {
            fs::remove_dir_all(&data).with_context(|| format!("remove {}", data.display()))?;
        }
    }
    Ok(())
}

/// Starts the controllers of this checkout's node anew: the garbage collector learns of kinds when it starts, and of later
/// ones only at its next look, half a minute on.
///
/// # Errors
/// When this checkout's node does not run, or the controllers cannot be started.
pub fn restart_controllers() -> Result<()> {
    let _lock = holder::lock()?;
    let places = Places::of_checkout()?;
    let ours = |holder: &Holder| holder.checkout == home::checkout() && !holder.running().is_empty();
    let holder = Holder::read()?.filter(ours).context("no node of this checkout runs: make cluster")?;
    if let Some(id) = Component::ControllerManager.running(&places) {
        id.stop(CONTROLLERS_GRACE);
    }
    Component::ControllerManager.ensure(&places, &places.layout(holder.etcd_ports[0], holder.etcd_ports[1]))
}

/// One line for each part of this checkout's node.
///
/// # Errors
/// When the record cannot be read.
pub fn status() -> Result<Vec<String>> {
    let places = Places::of_checkout()?;
    let Some(holder) = Holder::read()? else { return Ok(vec!["node: down".into()]) };
    if holder.checkout != home::checkout() {
        return Ok(vec![format!("node: held by {}", holder.checkout.display())]);
    }
    let (address, port) = places::api_address();
    let mut lines = vec![
        format!("node: https://{address}:{port}, registry {}", places.registry()),
        format!("kubeconfig: {}", places.kubeconfig().display()),
    ];
    for component in Component::ALL {
        let state = component.running(&places).map_or_else(|| "ENDED".into(), |id| format!("pid {}", id.pid));
        lines.push(format!("  {:<24} {state}", component.name()));
    }
    Ok(lines)
}

/// The kubeconfig of this checkout's node, when it is up.
///
/// # Errors
/// When the settings cannot be read.
pub fn running_kubeconfig() -> Result<Option<PathBuf>> {
    let places = Places::of_checkout()?;
    let up = Component::ApiServer.running(&places).is_some();
    Ok(up.then(|| places.kubeconfig()))
}

/// The address of the local registry: what images are pushed to.
///
/// # Errors
/// When `SANDBOX_REGISTRY_PORT` is no port.
pub fn registry() -> Result<String> {
    Ok(Places::of_checkout()?.registry())
}
