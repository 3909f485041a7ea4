//! Layers as files in the cache, each made again only when what it is made of has changed.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use sandbox_cluster::home;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

/// An uncompressed layer.
#[derive(Debug, Clone)]
pub struct Layer {
    /// The tar file.
    pub path: PathBuf,
    /// `sha256:…` of it.
    pub digest: String,
    /// Its bytes.
    pub size: u64,
}

/// One file of a layer.
#[derive(Debug)]
pub struct Entry {
    /// Path in the image, without the leading slash.
    pub at: &'static str,
    /// Path on this machine.
    pub from: PathBuf,
    /// Its mode.
    pub mode: u32,
    /// A program, whose symbols are left out.
    pub strip: bool,
}

/// What the cache remembers of a layer.
#[derive(Serialize, Deserialize)]
struct Note {
    key: String,
    digest: String,
    size: u64,
}

/// Where layers are kept, outside the checkout.
///
/// # Errors
/// It cannot be made.
pub fn dir() -> Result<PathBuf> {
    let dir = home::cache().join("layers");
    fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
    Ok(dir)
}

/// Waits for its turn: of two processes that make and push layers at once, one goes first.
///
/// # Errors
/// The lock file cannot be made.
pub fn turn() -> Result<File> {
    let path = dir()?.join(".lock");
    let file = File::create(&path).with_context(|| format!("make {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => eprintln!("- another process builds images; waiting for it"),
        Err(TryLockError::Error(error)) => return Err(error).with_context(|| format!("lock {}", path.display())),
    }
    file.lock().with_context(|| format!("lock {}", path.display()))?;
    Ok(file)
}

/// The layer kept under `name` if it was made for `key`.
///
/// # Errors
/// The cache cannot be made.
pub fn known(name: &str, key: &str) -> Result<Option<Layer>> {
    let (path, note) = places(name)?;
    // A note that cannot be read is as good as none: the layer is made again.
    let Some(note) = fs::read(note).ok().and_then(|text| serde_json::from_slice::<Note>(&text).ok()) else {
        return Ok(None);
    };
    let whole = path.metadata().is_ok_and(|data| data.len() == note.size);
    Ok((note.key == key && whole).then_some(Layer { path, digest: note.digest, size: note.size }))
}

/// Puts a finished tar file into the cache. An interruption leaves the old layer or none, never half a one.
///
/// # Errors
/// It cannot be read or moved.
pub fn keep(name: &str, key: &str, made: NamedTempFile) -> Result<Layer> {
    let (path, note) = places(name)?;
    let (digest, size) = digest(made.path())?;
    // First the note goes: it must never speak of another file.
    if let Err(error) = fs::remove_file(&note)
        && error.kind() != io::ErrorKind::NotFound
    {
        return Err(error).with_context(|| format!("remove {}", note.display()));
    }
    made.persist(&path).with_context(|| format!("put {} in place", path.display()))?;
    let text = serde_json::to_vec(&Note { key: key.to_owned(), digest: digest.clone(), size })?;
    let mut half = NamedTempFile::new_in(dir()?)?;
    half.write_all(&text)?;
    half.persist(&note).with_context(|| format!("put {} in place", note.display()))?;
    Ok(Layer { path, digest, size })
}

/// The layer of `image` with `entries`, made unless the cache has it.
///
/// # Errors
/// A file cannot be read, or a program not stripped.
pub fn of_files(image: &str, entries: &[Entry]) -> Result<Layer> {
    let name = image.replace(['/', ':'], "-");
    let key = key(entries)?;
    if let Some(known) = known(&name, &key)? {
        return Ok(known);
    }
    let half = tempfile::Builder::new().suffix(".tar").tempfile_in(dir()?)?;
    let mut tar = tar::Builder::new(half.reopen()?);
    for entry in entries {
        let bytes = content(entry)?;
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(entry.mode);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, entry.at, bytes.as_slice())?;
    }
    tar.into_inner()?.flush()?;
    keep(&name, &key, half)
}

/// From what the file system tells, so that an unchanged program is not read again.
fn key(entries: &[Entry]) -> Result<String> {
    let mut parts = Vec::new();
    for Entry { at, from, mode, strip } in entries {
        let data = from.metadata().with_context(|| format!("read {}", from.display()))?;
        let (size, seconds, nanos, inode) = (data.len(), data.mtime(), data.mtime_nsec(), data.ino());
        parts.push(format!("{at} {} {mode:o} {strip} {size} {seconds}.{nanos:09} {inode}", from.display()));
    }
    let parts: Vec<&[u8]> = parts.iter().map(String::as_bytes).collect();
    Ok(home::digest(&parts))
}

fn content(entry: &Entry) -> Result<Vec<u8>> {
    let from = &entry.from;
    if !entry.strip {
        return fs::read(from).with_context(|| format!("read {}", from.display()));
    }
    let stripped = tempfile::NamedTempFile::new()?;
    let output = Command::new("strip")
        .arg("--strip-all")
        .arg("-o")
        .args([stripped.path(), from])
        .stdin(Stdio::null())
        .output()
        .context("run strip: it is missing; install binutils")?;
    if !output.status.success() {
        bail!("strip {}: {}", from.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    fs::read(stripped.path()).with_context(|| format!("read the stripped {}", from.display()))
}

fn digest(path: &Path) -> Result<(String, u64)> {
    let mut file = File::open(path).with_context(|| format!("open {}", path.display()))?;
    let mut hash = Hashing(Sha256::new());
    let size = io::copy(&mut file, &mut hash).with_context(|| format!("read {}", path.display()))?;
    Ok((format!("sha256:{}", hex(&hash.0.finalize())), size))
}

/// `sha256:…` of bytes in memory.
pub fn digest_of(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Hashing(Sha256);

impl Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn places(name: &str) -> Result<(PathBuf, PathBuf)> {
    let dir = dir()?;
    Ok((dir.join(format!("{name}.tar")), dir.join(format!("{name}.json"))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_changed_file_is_another_layer_and_an_unchanged_one_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let from = dir.path().join("f");
        fs::write(&from, "one").unwrap();
        let entries = |mode| [Entry { at: "f", from: from.clone(), mode, strip: false }];
        let before = key(&entries(0o755)).unwrap();
        assert_eq!(before, key(&entries(0o755)).unwrap());
        assert_ne!(before, key(&entries(0o644)).unwrap());
        fs::write(&from, "three").unwrap();
        assert_ne!(before, key(&entries(0o755)).unwrap());
    }

    #[test]
    fn digests_are_those_of_the_registry() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(digest_of(b""), empty);
        let file = NamedTempFile::new().unwrap();
        assert_eq!(digest(file.path()).unwrap(), (empty.to_owned(), 0));
    }
}
