//! The generated files of a checkout.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Folders that hold nothing but generated definitions (and a kustomization).
const FOLDERS: [&str; 2] = ["config/crd", "charts/opensandbox-controller/templates/crds"];
/// The one file in them that is written by hand.
const BY_HAND: &str = "kustomization.yaml";

/// A generated file that is not what the types say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Drift {
    /// It is not there.
    Missing(PathBuf),
    /// Its text differs.
    Differs(PathBuf),
    /// It is there and no kind makes it.
    Stray(PathBuf),
}

impl fmt::Display for Drift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(path) => write!(f, "{} is missing", path.display()),
            Self::Differs(path) => write!(f, "{} differs from the types in api/", path.display()),
            Self::Stray(path) => write!(f, "{} belongs to no kind", path.display()),
        }
    }
}

/// Every generated file of a checkout, by its path below the root.
fn expected() -> anyhow::Result<BTreeMap<PathBuf, String>> {
    let [config, chart] = FOLDERS;
    let mut files = BTreeMap::new();
    for definition in crate::definitions()? {
        let name = format!("{}.yaml", definition.plural());
        files.insert(Path::new(config).join(&name), definition.yaml()?);
        files.insert(Path::new(chart).join(&name), definition.chart_template()?);
    }
    Ok(files)
}

/// Writes every generated file below `root`; returns those that changed.
///
/// # Errors
/// What the file system says, with the path.
pub fn write(root: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut changed = Vec::new();
    for (path, text) in expected()? {
        let full = root.join(&path);
        if read(&full)?.as_deref() == Some(text.as_str()) {
            continue;
        }
        if let Some(folder) = full.parent() {
            fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
        }
        fs::write(&full, text).with_context(|| format!("writing {}", full.display()))?;
        changed.push(path);
    }
    Ok(changed)
}

/// Every difference between the types and the files below `root`.
///
/// # Errors
/// What the file system says, with the path.
pub fn drift(root: &Path) -> anyhow::Result<Vec<Drift>> {
    let expected = expected()?;
    let mut found = Vec::new();
    for (path, text) in &expected {
        match read(&root.join(path))? {
            None => found.push(Drift::Missing(path.clone())),
            Some(there) if &there != text => found.push(Drift::Differs(path.clone())),
            Some(_) => {}
        }
    }
    for folder in FOLDERS {
        let strays = list(root, folder)?.into_iter().filter(|path| !expected.contains_key(path));
        found.extend(strays.map(Drift::Stray));
    }
    Ok(found)
}

fn read(path: &Path) -> anyhow::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

fn list(root: &Path, folder: &str) -> anyhow::Result<Vec<PathBuf>> {
    let full = root.join(folder);
    if !full.is_dir() {
        return Ok(Vec::new());
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(&full).with_context(|| format!("listing {}", full.display()))? {
        let name = entry.with_context(|| format!("listing {}", full.display()))?.file_name();
        if name != BY_HAND {
            paths.push(Path::new(folder).join(name));
        }
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fresh_write_has_no_drift_and_a_second_one_changes_nothing() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(write(root.path()).unwrap().len(), 8);
        assert_eq!(drift(root.path()).unwrap(), []);
        assert!(write(root.path()).unwrap().is_empty());
    }

    #[test]
    fn every_kind_of_drift_names_its_file() {
        let root = tempfile::tempdir().unwrap();
        write(root.path()).unwrap();
        let [pools, boxes, stray] =
            ["pools.yaml", "sandboxes.yaml", "old.yaml"].map(|name| Path::new("config/crd").join(name));
        fs::write(root.path().join(&pools), "kind: Other\n").unwrap();
        fs::remove_file(root.path().join(&boxes)).unwrap();
        fs::write(root.path().join(&stray), "").unwrap();
        fs::write(root.path().join("config/crd/kustomization.yaml"), "").unwrap();
        assert_eq!(drift(root.path()).unwrap(), [Drift::Differs(pools), Drift::Missing(boxes), Drift::Stray(stray)]);
    }
}
