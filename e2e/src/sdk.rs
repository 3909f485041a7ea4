//! The unmodified Python SDK, in an environment of its own outside the checkout.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, bail};
use sandbox_cluster::home;

/// The SDK's version; the environment is kept per version.
pub const VERSION: &str = "1.1.1";

/// A Python that has the SDK.
pub struct Sdk {
    python: PathBuf,
}

impl Sdk {
    /// Finds the environment, or makes it.
    ///
    /// # Errors
    /// When Python cannot make environments or the SDK cannot be installed; the message says what to do.
    pub fn prepare() -> Result<Self> {
        let dir = home::cache().join(format!("sdk-python-{VERSION}"));
        let python = dir.join("bin/python");
        let done = dir.join("installed");
        if !done.is_file() {
            run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&dir))
                .context("python3 cannot make an environment: apt-get install python3-venv")?;
            let package = format!("opensandbox=={VERSION}");
            run(Command::new(&python).args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                &package,
            ]))
            .with_context(|| format!("install {package}"))?;
            std::fs::write(&done, VERSION).with_context(|| format!("write {}", done.display()))?;
        }
        Ok(Self { python })
    }

    /// A scenario of `e2e/sdk/scenarios.py`, ready to run.
    #[must_use]
    pub fn scenario(&self, address: &str, key: &str, name: &str) -> Command {
        let mut command = Command::new(&self.python);
        command.arg(home::checkout().join("e2e/sdk/scenarios.py")).args([address, key, name]);
        // It would report home.
        command.env("OPENSANDBOX_DISABLE_METRICS", "1");
        command
    }
}

/// Runs a command to its end.
///
/// # Errors
/// When it cannot be started or fails; the message is what it said.
pub fn run(command: &mut Command) -> Result<Output> {
    let output = command.output().with_context(|| format!("start {}", name(command)))?;
    if !output.status.success() {
        let [said, complained] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        bail!("{} ended with {}:\n{said}{complained}", name(command), output.status);
    }
    Ok(output)
}

fn name(command: &Command) -> String {
    Path::new(command.get_program()).display().to_string()
}
