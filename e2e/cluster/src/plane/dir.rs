//! A plane's own directory: made for it, removed with it, and swept up when its process was killed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, anyhow};

use super::Storage;
use crate::process::ProcessId;

const PREFIX: &str = "opensandbox-plane-";

/// The directory of one plane; removed on drop unless `SANDBOX_KEEP` is set.
pub struct PlaneDir {
    path: PathBuf,
}

impl PlaneDir {
    /// Makes a directory, and removes those of processes that no longer run.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn create(storage: Storage) -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let base = match storage {
            Storage::Disk => env::temp_dir(),
            Storage::Memory => PathBuf::from("/dev/shm"),
        };
        sweep(&base);
        let pid = i32::try_from(std::process::id())?;
        let us = ProcessId::of(pid).ok_or_else(|| anyhow!("/proc is not mounted: mount -t proc proc /proc"))?;
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("{PREFIX}{}-{}-{number}", us.pid, us.started));
        fs::create_dir_all(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self { path })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PlaneDir {
    fn drop(&mut self) {
        if env::var_os("SANDBOX_KEEP").is_some() {
            eprintln!("- kept {}", self.path.display());
            return;
        }
        // A leftover is swept by the next plane.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn sweep(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if let Some(owner) = name.to_str().and_then(owner)
            && !owner.alive()
        {
            // Another process may sweep the same one.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn owner(name: &str) -> Option<ProcessId> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    Some(ProcessId { pid: parts.next()?.parse().ok()?, started: parts.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_names_its_owner_and_strangers_are_left_alone() {
        assert_eq!(owner("opensandbox-plane-12-345-0"), Some(ProcessId { pid: 12, started: 345 }));
        assert_eq!(owner("opensandbox-plane-x"), None);
        assert_eq!(owner("somebody-else-12-345-0"), None);
    }
}
