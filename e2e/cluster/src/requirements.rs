//! What the machine must have, named with the command that brings it.

use std::env;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::wait::Step;

/// What one is about to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Build the binaries and run control planes.
    Plane,
    /// Run the whole node.
    Node,
    /// Take it away.
    Down,
}

/// One thing that is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Root,
    Go,
    Tool { program: &'static str, package: &'static str },
    CniPlugins,
}

const UTIL_LINUX: Need = tool("setpriv", "util-linux");
const PLANE: &[Need] = &[Need::Go, UTIL_LINUX];
const DOWN: &[Need] = &[Need::Root, tool("ip", "iproute2"), tool("nft", "nftables")];
const NODE: &[Need] = &[
    Need::Root,
    Need::Go,
    UTIL_LINUX,
    tool("containerd", "containerd"),
    tool("runc", "runc"),
    Need::CniPlugins,
    tool("docker-registry", "docker-registry"),
    tool("iptables", "iptables"),
    tool("nft", "nftables"),
    tool("conntrack", "conntrack"),
    tool("ip", "iproute2"),
    tool("socat", "socat"),
    tool("mmdebstrap", "mmdebstrap"),
    tool("tar", "tar"),
    tool("curl", "curl"),
    tool("strip", "binutils"),
    tool("python3", "python3-venv"),
];

const fn tool(program: &'static str, package: &'static str) -> Need {
    Need::Tool { program, package }
}

impl Need {
    fn is_met(self) -> bool {
        match self {
            Self::Root => rustix::process::geteuid().is_root(),
            Self::Go => in_path("go"),
            Self::Tool { program, .. } => in_path(program),
            Self::CniPlugins => ["/usr/lib/cni/ptp", "/opt/cni/bin/ptp"].iter().any(|path| Path::new(path).is_file()),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Root => "root rights",
            Self::Go => "go",
            Self::Tool { program, .. } => program,
            Self::CniPlugins => "the CNI plugins",
        }
    }

    fn package(self) -> Option<&'static str> {
        match self {
            Self::Root | Self::Go => None,
            Self::Tool { package, .. } => Some(package),
            Self::CniPlugins => Some("containernetworking-plugins"),
        }
    }

    fn remedy(self) -> String {
        match self {
            Self::Root => "run it as root: sudo -E make ...".into(),
            // Debian's is too old for the modules.
            Self::Go => "install Go 1.26 or newer from https://go.dev/dl and put its bin directory into PATH".into(),
            Self::Tool { package, .. } => format!("apt-get install {package}"),
            Self::CniPlugins => "apt-get install containernetworking-plugins".into(),
        }
    }
}

fn in_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

fn needs(purpose: Purpose) -> &'static [Need] {
    match purpose {
        Purpose::Plane => PLANE,
        Purpose::Node => NODE,
        Purpose::Down => DOWN,
    }
}

/// Fails when something is missing: one line for each, with the command that brings it.
///
/// # Errors
/// As said.
pub fn check(purpose: Purpose) -> Result<()> {
    let missing: Vec<Need> = needs(purpose).iter().copied().filter(|need| !need.is_met()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = missing.iter().map(|need| format!("  {}: {}", need.name(), need.remedy())).collect();
    bail!("this machine lacks (make setup installs what apt has):\n{}", lines.join("\n"))
}

/// Installs by apt what is missing and what apt has, then checks the rest.
///
/// # Errors
/// When apt fails, or when something is missing that apt does not have.
pub fn install() -> Result<()> {
    let packages: Vec<&str> = NODE.iter().filter(|need| !need.is_met()).filter_map(|need| need.package()).collect();
    if !packages.is_empty() {
        if !Need::Root.is_met() {
            bail!("apt needs root rights: sudo -E make setup (missing: {})", packages.join(" "));
        }
        let step = Step::begin(format!("apt-get install {}", packages.join(" ")));
        apt(&["update", "-q"])?;
        let mut words = vec!["install", "-q", "-y", "--no-install-recommends"];
        words.extend(&packages);
        apt(&words)?;
        step.done();
    }
    check(Purpose::Node)?;
    eprintln!("- the machine has all that is needed");
    Ok(())
}

fn apt(words: &[&str]) -> Result<()> {
    let status = Command::new("apt-get")
        .args(words)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .status()
        .context("run apt-get: this machine has none; install by hand what sandbox-cluster setup --check names")?;
    if !status.success() {
        bail!("apt-get {} ({status})", words.join(" "));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_need_says_what_brings_it() {
        for need in NODE.iter().chain(PLANE).chain(DOWN) {
            assert!(!need.remedy().is_empty() && !need.name().is_empty());
            if let Some(package) = need.package() {
                assert!(need.remedy().contains(package));
            }
        }
    }
}
