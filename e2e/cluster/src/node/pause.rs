//! The sandbox image of every Pod: one static program, pushed to our own registry.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use super::places::Places;
use super::shell::run;
use crate::binaries::Binary;
use crate::home;

/// The image's name. Its tag follows the program, so that a node never runs an older one.
///
/// # Errors
/// When the program is not built.
pub fn image() -> Result<String> {
    let program = Binary::Pause.path();
    let bytes = fs::read(&program).with_context(|| format!("read {}: run sandbox-cluster build", program.display()))?;
    Ok(format!("opensandbox.local/cluster/pause:{}", &home::digest(&[&bytes])[..12]))
}

/// Pushes it unless the registry has it.
///
/// # Errors
/// When crane fails.
pub fn push(places: &Places, image: &str) -> Result<()> {
    let path = image.split_once('/').map_or(image, |(_, path)| path);
    let target = format!("{}/{path}", places.registry());
    let crane = Binary::Crane.path();
    let crane = crane.to_string_lossy();
    if run(&crane, &["digest", &target]).is_ok() {
        return Ok(());
    }
    let work = tempfile::tempdir().context("make a temporary directory")?;
    let layer = work.path().join("layer.tar");
    let layer = layer.to_string_lossy();
    let name = Binary::Pause.name();
    run("tar", &["--owner=0", "--group=0", "--mtime=@0", "-C", &dir_of(&Binary::Pause.path()), "-cf", &layer, name])?;
    run(&crane, &["append", "--oci-empty-base", "--new_layer", &layer, "--new_tag", &target])?;
    let platform = format!("linux/{}", architecture());
    run(&crane, &["mutate", &target, "--entrypoint", "/pause", "--set-platform", &platform, "--tag", &target])?;
    Ok(())
}

fn dir_of(path: &Path) -> String {
    path.parent().unwrap_or(path).to_string_lossy().into_owned()
}

/// The machine's architecture as Go and OCI name it.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
