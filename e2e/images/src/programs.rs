//! The programs of this repository that go into images.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use sandbox_cluster::home;

/// A program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// Runs in every sandbox, also in an empty image: linked statically.
    TaskExecutor,
    /// The stand-in for execd, likewise.
    Execd,
    /// The operator.
    Controller,
    /// The API server.
    Server,
}

/// How operator and server are compiled.
#[derive(Debug, Clone, Copy)]
pub enum Profile {
    /// As everything else of the inner loop is.
    Debug,
    /// As it is shipped.
    Release,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Linking {
    Static,
    Dynamic,
}

impl Program {
    fn package(self) -> &'static str {
        match self {
            Self::TaskExecutor => "task-executor",
            Self::Execd => "sandbox-e2e-execd",
            Self::Controller => "sandbox-controller",
            Self::Server => "sandbox-server",
        }
    }

    fn binary(self) -> &'static str {
        match self {
            Self::TaskExecutor => "task-executor",
            Self::Execd => "execd",
            Self::Controller => "opensandbox-controller",
            Self::Server => "opensandbox-server",
        }
    }

    fn linking(self) -> Linking {
        match self {
            Self::TaskExecutor | Self::Execd => Linking::Static,
            // They look up names, which a static program cannot do safely.
            Self::Controller | Self::Server => Linking::Dynamic,
        }
    }
}

/// Builds `programs` with cargo and answers where each is.
///
/// # Errors
/// cargo fails; it has said why. Or a program that is not linked statically was not built yet: the message says how to.
pub fn build(programs: &BTreeSet<Program>, profile: Profile) -> Result<BTreeMap<Program, PathBuf>> {
    let mut built = BTreeMap::new();
    for linking in [Linking::Static, Linking::Dynamic] {
        let wanted: Vec<Program> = programs.iter().copied().filter(|program| program.linking() == linking).collect();
        if wanted.is_empty() {
            continue;
        }
        let dir = match (linking, profile) {
            // Built with this program, by the same command: another selection would compile the libraries once more.
            (Linking::Dynamic, Profile::Debug) => beside_this_program(&wanted)?,
            (Linking::Static, _) | (Linking::Dynamic, Profile::Release) => cargo(&wanted, linking, profile)?,
        };
        built.extend(wanted.into_iter().map(|program| (program, dir.join(program.binary()))));
    }
    Ok(built)
}

fn beside_this_program(wanted: &[Program]) -> Result<PathBuf> {
    let this = std::env::current_exe().context("find this program's own file")?;
    let dir = this.parent().context("this program's file is in no directory")?;
    for program in wanted {
        let binary = program.binary();
        if !dir.join(binary).is_file() {
            bail!("{binary} is not in {}: `make bins` builds it there", dir.display());
        }
    }
    Ok(dir.to_owned())
}

fn cargo(wanted: &[Program], linking: Linking, profile: Profile) -> Result<PathBuf> {
    let names: Vec<&str> = wanted.iter().map(|program| program.binary()).collect();
    eprintln!("- build {} (cargo; a moment when unchanged)", names.join(", "));
    let target = target_dir();
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(home::checkout()).args(["build", "--quiet", "--target-dir"]).arg(&target);
    for program in wanted {
        cargo.args(["--package", program.package(), "--bin", program.binary()]);
    }
    let dir = match linking {
        Linking::Static => {
            let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
            let flags = format!("CARGO_TARGET_{}_RUSTFLAGS", triple.to_uppercase().replace('-', "_"));
            // With a target of its own, build scripts and macros are not linked statically too.
            cargo.args(["--target", &triple]).env(flags, "-C target-feature=+crt-static");
            target.join(triple)
        }
        Linking::Dynamic => target,
    };
    let dir = match profile {
        Profile::Debug => dir.join("debug"),
        Profile::Release => {
            cargo.arg("--release");
            dir.join("release")
        }
    };
    let status = cargo.status().context("run cargo: it is missing; install Rust (https://rustup.rs)")?;
    if !status.success() {
        bail!("cargo could not build {} ({status})", names.join(", "));
    }
    Ok(dir)
}

fn target_dir() -> PathBuf {
    let set = std::env::var_os("CARGO_TARGET_DIR").filter(|dir| !dir.is_empty());
    set.map_or_else(|| home::checkout().join("target"), PathBuf::from)
}
