//! The unmodified Python SDK: installed once into the cache, then run on scripts of `e2e/sdk`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};
use sandbox_cluster::home;

const DONE: &str = "complete";

/// A Python that has the SDK.
pub struct Sdk {
    python: PathBuf,
    scripts: PathBuf,
}

impl Sdk {
    /// Installs the SDK at the versions of `e2e/sdk/requirements.txt`, unless that was done before.
    ///
    /// # Errors
    /// When Python or its `venv` is missing, or the package index does not serve the SDK.
    pub fn install() -> Result<Self> {
        let scripts = home::checkout().join("e2e/sdk");
        let wanted = scripts.join("requirements.txt");
        let pins = fs::read(&wanted).with_context(|| format!("read {}", wanted.display()))?;
        let python = run(Command::new("python3").arg("--version")).context("apt-get install python3 python3-venv")?;
        let cache = home::cache();
        fs::create_dir_all(&cache).with_context(|| format!("create {}", cache.display()))?;
        let place = cache.join(format!("python-{}", &home::digest(&[&pins, &python.stdout])[..12]));
        let lock = File::create(cache.join("python.lock")).context("make the lock of the Python environment")?;
        lock.lock().context("wait for the lock of the Python environment")?;
        if !place.join(DONE).is_file() {
            install(&place, &wanted)?;
        }
        Ok(Self { python: place.join("bin/python"), scripts })
    }

    /// A command that runs a script of `e2e/sdk` against a server.
    #[must_use]
    pub fn script(&self, name: &str, server: &str, api_key: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.arg(self.scripts.join(name)).env("SANDBOX_SERVER", server).env("SANDBOX_API_KEY", api_key);
        // No cache files in the checkout, and no report to whoever collects figures on the SDK's use.
        command.env("PYTHONDONTWRITEBYTECODE", "1").env("OPENSANDBOX_DISABLE_METRICS", "1");
        command
    }
}

fn install(place: &Path, wanted: &Path) -> Result<()> {
    if place.exists() {
        fs::remove_dir_all(place).with_context(|| format!("remove the half-made {}", place.display()))?;
    }
    run(Command::new("python3").args(["-m", "venv"]).arg(place)).context("apt-get install python3-venv")?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"];
    run(Command::new(place.join("bin/python")).args(pip).arg(wanted))
        .context("install the SDK from the package index")?;
    fs::write(place.join(DONE), "").context("mark the Python environment complete")
}

/// Runs a command to its end; its output is returned.
///
/// # Errors
/// When it cannot be run or does not succeed; the message holds what it wrote.
pub fn run(command: &mut Command) -> Result<Output> {
    let name = Path::new(command.get_program()).display().to_string();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("run {name}"))?;
    if output.status.success() {
        return Ok(output);
    }
    let [said, complained] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    bail!("{name} ended with {}:\n{said}{complained}", output.status)
}
