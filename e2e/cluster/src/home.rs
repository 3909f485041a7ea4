//! Where things live outside the checkout: caches, state, run files.

use std::env;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The checkout this program was built from.
pub fn checkout() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Directory for what is built once and kept: Go binaries and their sources.
///
/// `SANDBOX_CACHE`, else `opensandbox-cluster` in `XDG_CACHE_HOME` or `~/.cache`.
pub fn cache() -> PathBuf {
    cache_from(|name| env::var_os(name).map(PathBuf::from))
}

fn cache_from(var: impl Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let set = |name: &str| var(name).filter(|path| !path.as_os_str().is_empty());
    if let Some(chosen) = set("SANDBOX_CACHE") {
        return chosen;
    }
    let base = set("XDG_CACHE_HOME")
        .or_else(|| set("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(|| PathBuf::from("/var/cache"));
    base.join("opensandbox-cluster")
}

/// Directory for the state of this checkout's clusters.
///
/// `SANDBOX_STATE` (default `/var/lib/opensandbox-cluster`) with the cluster's name in it, so that
/// two checkouts do not share state.
pub fn state() -> PathBuf {
    let root = env::var_os("SANDBOX_STATE")
        .filter(|value| !value.is_empty())
        .map_or_else(|| PathBuf::from("/var/lib/opensandbox-cluster"), PathBuf::from);
    root.join(cluster_name(&checkout()))
}

/// Machine-wide directory: who holds the one whole node, and which ports are taken.
///
/// It does not follow `SANDBOX_STATE`: two checkouts with different states still meet here.
pub fn run() -> PathBuf {
    if rustix::process::getuid().is_root() {
        PathBuf::from("/run/opensandbox-cluster")
    } else {
        env::temp_dir().join(format!("opensandbox-cluster-{}", rustix::process::getuid().as_raw()))
    }
}

/// A short, stable name for the clusters of one checkout: its directory's name and a hash of its path.
pub fn cluster_name(checkout: &Path) -> String {
    let stem: String = checkout
        .file_name()
        .map(|name| name.to_string_lossy().to_lowercase())
        .unwrap_or_default()
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(20)
        .collect();
    format!("{stem}-{}", &digest(&[checkout.as_os_str().as_encoded_bytes()])[..8])
}

/// SHA-256 over the parts, each preceded by its length so that no two lists of parts collide; hex.
pub fn digest(parts: &[&[u8]]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_checkouts_get_two_names() {
        assert_ne!(cluster_name(Path::new("/a/repo")), cluster_name(Path::new("/b/repo")));
        assert_eq!(cluster_name(Path::new("/a/repo")), cluster_name(Path::new("/a/repo")));
        assert!(cluster_name(Path::new("/a/My Repo")).starts_with("myrepo-"));
    }

    #[test]
    fn a_digest_tells_apart_where_one_part_ends() {
        assert_ne!(digest(&[b"ab", b"c"]), digest(&[b"a", b"bc"]));
    }

    #[test]
    fn the_cache_is_where_the_user_says() {
        let only =
            |name: &'static str, value: &'static str| move |asked: &str| (asked == name).then(|| PathBuf::from(value));
        assert_eq!(cache_from(only("SANDBOX_CACHE", "/c")), Path::new("/c"));
        assert_eq!(cache_from(only("XDG_CACHE_HOME", "/x")), Path::new("/x/opensandbox-cluster"));
        assert_eq!(cache_from(only("HOME", "/h")), Path::new("/h/.cache/opensandbox-cluster"));
    }
}
