//! Who holds the one whole node of this machine.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::network::Before;
use crate::home;
use crate::process::ProcessId;

/// The record of a running (or abruptly ended) node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Holder {
    /// The checkout that started it.
    pub checkout: PathBuf,
    /// Its directory.
    pub dir: PathBuf,
    /// What it was built and configured from.
    pub made_from: String,
    /// etcd's two ports.
    pub etcd_ports: [u16; 2],
    /// The registry's port.
    pub registry_port: u16,
    /// What to put back at its end.
    pub before: Before,
}

fn path() -> PathBuf {
    home::run().join("node.json")
}

impl Holder {
    /// The record on this machine, if there is one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read() -> Result<Option<Self>> {
        let Ok(text) = fs::read_to_string(path()) else { return Ok(None) };
        let advice = || format!("read {}: remove it if no node runs", path().display());
        Ok(Some(serde_json::from_str(&text).with_context(advice)?))
    }

    /// Writes the record.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self) -> Result<()> {
        let half = path().with_extension("half");
        fs::write(&half, serde_json::to_vec_pretty(self)?)
            .and_then(|()| fs::rename(&half, path()))
            .with_context(|| format!("write {}", path().display()))
    }

    /// Forgets it.
    pub fn remove() {
        // Without a record there is nothing to forget.
        let _ = fs::remove_file(path());
    }

    /// The processes that still run, by name.
    pub fn running(&self) -> Vec<(String, ProcessId)> {
        pids(&self.dir.join("pids")).into_iter().filter(|(_, id)| id.alive()).collect()
    }
}

/// The recorded processes of a node, alive or not.
pub fn pids(dir: &Path) -> Vec<(String, ProcessId)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let text = fs::read_to_string(entry.path()).unwrap_or_default();
        if let Ok(id) = serde_json::from_str(&text) {
            found.push((name, id));
        }
    }
    found
}

/// Keeps two of `up` and `down` apart, from any checkout, until dropped.
///
/// # Errors
/// When the run directory cannot be written.
pub fn lock() -> Result<File> {
    let dir = home::run();
    fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let path = dir.join("node.lock");
    let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => eprintln!("- another up or down is at work; waiting for it"),
        Err(TryLockError::Error(error)) => return Err(error).with_context(|| format!("lock {}", path.display())),
    }
    file.lock().with_context(|| format!("lock {}", path.display()))?;
    Ok(file)
}
