//! Root file systems from Debian packages, unpacked and not configured: seconds, no chroot, nothing pulled.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use sandbox_cluster::home;

use crate::layer::{self, Layer};

/// Which file system an image stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rootfs {
    /// What people use in a sandbox.
    Tools,
    /// What a program linked on this machine needs.
    Runtime,
}

/// Run in the unpacked tree: what the packages' own scripts would have made, and without what nobody reads here.
const HOOK: &str = r#"set -e
cd "$1"
mkdir -p dev proc sys run tmp root workspace var/lib etc/ssl/certs
chmod 1777 tmp
cp usr/share/base-passwd/passwd.master etc/passwd
cp usr/share/base-passwd/group.master etc/group
cat usr/share/ca-certificates/mozilla/*.crt > etc/ssl/certs/ca-certificates.crt
printf 'hosts: files dns\n' > etc/nsswitch.conf
[ ! -e usr/bin/mawk ] || ln -sf mawk usr/bin/awk
[ ! -e usr/bin/which.debianutils ] || ln -sf which.debianutils usr/bin/which
[ ! -e usr/bin/python3 ] || ln -sf python3 usr/bin/python
rm -rf usr/share/doc usr/share/man usr/share/info usr/share/locale usr/share/bash-completion
rm -rf var/cache/apt var/lib/apt var/log/*
"#;

impl Rootfs {
    fn name(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Runtime => "runtime",
        }
    }

    fn packages(self) -> &'static str {
        match self {
            Self::Tools => {
                "base-files,base-passwd,bash,ca-certificates,coreutils,curl,dash,debianutils,diffutils,findutils,grep,\
                 gzip,hostname,iproute2,libc-bin,mawk,netbase,procps,python3,sed,tar,util-linux"
            }
            Self::Runtime => "base-files,base-passwd,ca-certificates,libc6,libgcc-s1,netbase",
        }
    }
}

/// The layer of `rootfs`, made unless the cache has it.
///
/// # Errors
/// mmdebstrap is missing or fails; the message ends with what it said.
pub fn layer(rootfs: Rootfs) -> Result<Layer> {
    let suite = suite()?;
    let key = home::digest(&[suite.as_bytes(), rootfs.packages().as_bytes(), HOOK.as_bytes()]);
    let name = format!("rootfs-{}", rootfs.name());
    if let Some(known) = layer::known(&name, &key)? {
        return Ok(known);
    }
    let dir = layer::dir()?;
    let begun = Instant::now();
    eprintln!("- unpack {} of Debian {suite} (10 to 30 s when cold, kept in {})", rootfs.name(), dir.display());
    let half = tempfile::Builder::new().suffix(".tar").tempfile_in(&dir)?;
    unpack(rootfs, &suite, half.path())?;
    let made = layer::keep(&name, &key, half)?;
    eprintln!("  unpacked {} in {} s, {} MB", rootfs.name(), begun.elapsed().as_secs(), made.size / 1_000_000);
    Ok(made)
}

fn unpack(rootfs: Rootfs, suite: &str, to: &Path) -> Result<()> {
    let output = Command::new("mmdebstrap")
        .args(["--mode=root", "--variant=extract", "--quiet", "--format=tar"])
        .arg(format!("--include={}", rootfs.packages()))
        // Of the hooks, this is the one that runs when packages are only unpacked.
        .arg(format!("--extract-hook={HOOK}"))
        .arg(suite)
        .arg(to)
        .env("SOURCE_DATE_EPOCH", "0")
        .stdin(Stdio::null())
        .output()
        .context("run mmdebstrap: it is missing; install it with: make setup")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<&str> = said.lines().rev().take(15).collect();
        let last: Vec<&str> = last.into_iter().rev().collect();
        bail!("mmdebstrap for {} ({}): {}", rootfs.name(), output.status, last.join("\n"));
    }
    finished(to).with_context(|| format!("{} as mmdebstrap left it", rootfs.name()))
}

/// The hook's work is in the archive: an mmdebstrap that skips it says nothing.
fn finished(archive: &Path) -> Result<()> {
    let mut tar = tar::Archive::new(fs::File::open(archive)?);
    for entry in tar.entries()? {
        if entry?.path()?.ends_with("etc/nsswitch.conf") {
            return Ok(());
        }
    }
    bail!("etc/nsswitch.conf is missing: this mmdebstrap did not run its --extract-hook")
}

/// The release of this machine: programs linked here need its C library, and its keys sign that release.
fn suite() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").context("read /etc/os-release")?;
    let field = |key: &str| text.lines().find_map(|line| line.strip_prefix(key)).map(|value| value.trim_matches('"'));
    if field("ID=") != Some("debian") {
        bail!("images are built from Debian packages: run this on a Debian machine");
    }
    field("VERSION_CODENAME=").map(str::to_owned).context("/etc/os-release has no VERSION_CODENAME")
}
