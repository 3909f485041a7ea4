//! The verbs of the command line.

use std::env;
use std::fs;
use std::io::{Write, stdout};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use sandbox_cluster::binaries::{self, Binary};
use sandbox_cluster::process::{Launch, Lifetime, ProcessId, Running};
use sandbox_cluster::requirements::{self, Purpose};
use sandbox_cluster::wait::{Probe, Step, until};
use sandbox_cluster::{Plane, PlaneOptions, Storage, home, node};
use tokio::signal::unix::{SignalKind, signal};

use crate::{PlaneArguments, PlaneVerb, Verb};

const PLANE_LIMIT: Duration = Duration::from_secs(3600);

/// Runs one verb.
pub fn run(verb: Verb) -> Result<ExitCode> {
    match verb {
        Verb::Setup { check: true } => requirements::check(Purpose::Node)?,
        Verb::Setup { check: false } => requirements::install()?,
        Verb::Build { names } => build(&names)?,
        Verb::Plane { verb } => plane(verb)?,
        Verb::Up => up()?,
        Verb::Down { force, purge } => down(force, purge)?,
        Verb::Kubectl { arguments } => return kubectl(&arguments),
        Verb::Kubeconfig => say(&kubeconfig()?.display().to_string())?,
        Verb::Which { name } => which(&name)?,
        Verb::Status => status()?,
    }
    Ok(ExitCode::SUCCESS)
}

fn say(line: &str) -> Result<()> {
    match writeln!(stdout(), "{line}") {
        // Whoever read the output has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.context("write to standard output"),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Runtime::new().context("start the async runtime")
}

fn binary(name: &str) -> Result<Binary> {
    let names = || Binary::ALL.iter().map(|binary| binary.name()).collect::<Vec<_>>().join(" ");
    let found = Binary::ALL.iter().copied().find(|binary| binary.name() == name);
    found.ok_or_else(|| anyhow!("there is no binary {name}; there are: {}", names()))
}

fn build(names: &[String]) -> Result<()> {
    requirements::check(Purpose::Plane)?;
    let wanted = if names.is_empty() {
        Binary::ALL.to_vec()
    } else {
        names.iter().map(|name| binary(name)).collect::<Result<_>>()?
    };
    binaries::ensure(&wanted)?;
    eprintln!("- {} binaries are in {}", wanted.len(), home::cache().display());
    Ok(())
}

fn which(name: &str) -> Result<()> {
    let binary = binary(name)?;
    binaries::ensure(&[binary])?;
    say(&binary.path().display().to_string())
}

/// The user's own cluster, when `KUBECONFIG` names one that is not ours.
fn foreign() -> Option<PathBuf> {
    let path = PathBuf::from(env::var_os("KUBECONFIG").filter(|value| !value.is_empty())?);
    (!path.starts_with(home::state())).then_some(path)
}

fn up() -> Result<()> {
    if let Some(path) = foreign() {
        eprintln!("- KUBECONFIG is set: using the cluster of {}; nothing is started", path.display());
        let reached = Command::new(kubectl_program()?).args(["version", "--request-timeout=10s"]).status();
        if !reached.context("run kubectl")?.success() {
            bail!("the cluster of {} does not answer; unset KUBECONFIG to get one of our own", path.display());
        }
        return Ok(());
    }
    let step = Step::begin("bring the whole node up");
    let kubeconfig = runtime()?.block_on(node::up())?;
    step.done();
    eprintln!("- export KUBECONFIG={}", kubeconfig.display());
    Ok(())
}

fn down(force: bool, purge: bool) -> Result<()> {
    if let Some(path) = foreign() {
        eprintln!("- KUBECONFIG is set: the cluster of {} is yours and is left alone", path.display());
        return Ok(());
    }
    node::down(force, purge)
}

fn kubeconfig() -> Result<PathBuf> {
    if let Some(path) = foreign() {
        return Ok(path);
    }
    if let Some(path) = node::running_kubeconfig()? {
        return Ok(path);
    }
    match plane_process() {
        Some(_) => {
            Ok(PathBuf::from(fs::read_to_string(plane_file("kubeconfig")).context("read the plane's kubeconfig")?))
        }
        None => bail!("no cluster runs: make cluster (the whole node), or sandbox-cluster plane up"),
    }
}

fn kubectl_program() -> Result<PathBuf> {
    binaries::ensure(&[Binary::Kubectl])?;
    Ok(Binary::Kubectl.path())
}

fn kubectl(arguments: &[String]) -> Result<ExitCode> {
    if let Some(path) = foreign() {
        eprintln!("- KUBECONFIG is set: using the cluster of {}", path.display());
    }
    let mut command = Command::new(kubectl_program()?);
    command.args(arguments).env("KUBECONFIG", kubeconfig()?);
    // Only returns when it fails.
    Err(command.exec()).context("run kubectl")
}

fn status() -> Result<()> {
    if let Some(path) = foreign() {
        say(&format!("KUBECONFIG is set: {} is in use", path.display()))?;
    }
    for line in node::status()? {
        say(&line)?;
    }
    match plane_process() {
        Some(id) => {
            let path = fs::read_to_string(plane_file("kubeconfig")).unwrap_or_default();
            say(&format!("plane: pid {}, kubeconfig: {path}", id.pid))?;
        }
        None => say("plane: down")?,
    }
    let missing: Vec<&str> = Binary::ALL.iter().filter(|each| !each.is_built()).map(|each| each.name()).collect();
    if !missing.is_empty() {
        say(&format!("not built yet: {}", missing.join(" ")))?;
    }
    Ok(())
}

fn plane_file(name: &str) -> PathBuf {
    home::state().join("plane").join(name)
}

fn plane_process() -> Option<ProcessId> {
    let text = fs::read_to_string(plane_file("pid")).ok()?;
    serde_json::from_str::<ProcessId>(&text).ok().filter(|id| id.alive())
}

fn plane(verb: PlaneVerb) -> Result<()> {
    match verb {
        PlaneVerb::Up(arguments) => plane_up(arguments),
        PlaneVerb::Down => plane_down(),
        PlaneVerb::Serve(arguments) => runtime()?.block_on(plane_serve(arguments)),
    }
}

fn plane_up(arguments: PlaneArguments) -> Result<()> {
    if plane_process().is_none() {
        build(&["etcd".into(), "kube-apiserver".into(), "kube-controller-manager".into()])?;
        let step = Step::begin("start a control plane");
        let dir = home::state().join("plane");
        fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
        for stale in ["kubeconfig", "serve.log"] {
            // Of an earlier plane; absent after a clean end.
            let _ = fs::remove_file(plane_file(stale));
        }
        let mut running = serve_launch(&dir, arguments)?.start()?;
        fs::write(plane_file("pid"), serde_json::to_vec(&running.id)?).context("write the plane's pid")?;
        runtime()?.block_on(until("the control plane", PLANE_LIMIT, || std::future::ready(is_served(&mut running))))?;
        step.done();
    }
    eprintln!("- export KUBECONFIG={}", fs::read_to_string(plane_file("kubeconfig"))?);
    Ok(())
}

fn is_served(server: &mut Running) -> Result<Probe<()>> {
    server.check()?;
    let there = plane_file("kubeconfig").is_file();
    Ok(if there { Probe::Done(()) } else { Probe::NotYet("it is starting".into()) })
}

fn serve_launch(dir: &Path, arguments: PlaneArguments) -> Result<Launch> {
    let mut args = vec!["plane".to_owned(), "serve".to_owned()];
    if arguments.disk {
        args.push("--disk".into());
    }
    if arguments.scheduler {
        args.push("--scheduler".into());
    }
    Ok(Launch {
        name: "serve".into(),
        program: env::current_exe().context("find this program")?,
        args,
        env: Vec::new(),
        logs: dir.to_owned(),
        lifetime: Lifetime::OnItsOwn,
    })
}

async fn plane_serve(arguments: PlaneArguments) -> Result<()> {
    let storage = if arguments.disk { Storage::Disk } else { Storage::Memory };
    let plane =
        Plane::start(PlaneOptions { storage, scheduler: arguments.scheduler, ..PlaneOptions::default() }).await?;
    let told = plane_file("kubeconfig");
    let half = told.with_extension("half");
    fs::create_dir_all(told.parent().unwrap_or(&told))?;
    fs::write(&half, plane.kubeconfig().display().to_string())
        .and_then(|()| fs::rename(&half, &told))
        .context("tell where the plane is")?;
    let (mut term, mut int) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    tokio::select! {
        _ = term.recv() => {}
        _ = int.recv() => {}
    }
    drop(plane);
    Ok(())
}

fn plane_down() -> Result<()> {
    match plane_process() {
        Some(id) => id.stop(Duration::from_secs(20)),
        None => eprintln!("- no control plane runs"),
    }
    let dir = home::state().join("plane");
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    Ok(())
}
