//! Directories: making, removing, listing and searching them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use axum::Json;
use axum::extract::{Query, RawQuery};
use serde::Deserialize;

use crate::answer::Failure;
use crate::files::paths;
use crate::metadata::{FileInfo, Permission};
use crate::pattern;

/// `POST /directories`.
pub async fn create(Json(all): Json<BTreeMap<PathBuf, Permission>>) -> Result<(), Failure> {
    for (path, permission) in all {
        std::fs::create_dir_all(&path).map_err(|error| Failure::io(&path.display().to_string(), &error))?;
        permission.apply(&path)?;
    }
    Ok(())
}

/// `DELETE /directories?path=…`: with all in them; one that is not there is no error.
pub async fn remove(RawQuery(query): RawQuery) -> Result<(), Failure> {
    for path in paths(query.as_deref())? {
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::io(&path.display().to_string(), &error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// What to list.
#[derive(Deserialize)]
pub struct List {
    path: PathBuf,
    depth: Option<usize>,
}

/// `GET /directories/list?path=&depth=`.
pub async fn list(Query(list): Query<List>) -> Result<Json<Vec<FileInfo>>, Failure> {
    let mut found = Vec::new();
    walk(&list.path, list.depth.unwrap_or(1).max(1), &mut found)?;
    found.iter().map(|path| FileInfo::of(path)).collect::<Result<_, _>>().map(Json)
}

/// What to look for.
#[derive(Deserialize)]
pub struct Search {
    path: PathBuf,
    pattern: Option<String>,
}

/// `GET /files/search?path=&pattern=`: files only.
pub async fn search(Query(search): Query<Search>) -> Result<Json<Vec<FileInfo>>, Failure> {
    let wanted = search.pattern.as_deref().unwrap_or("**");
    let mut found = Vec::new();
    walk(&search.path, usize::MAX, &mut found)?;
    found.retain(|path| {
        let relative = path.strip_prefix(&search.path).unwrap_or(path).to_string_lossy();
        !path.is_dir() && pattern::matches(wanted, &relative)
    });
    // One that went away since the walk is not found any more.
    Ok(Json(found.iter().filter_map(|path| FileInfo::of(path).ok()).collect()))
}

/// Everything below `root`, in order of names, `depth` levels deep; links are not followed.
fn walk(root: &Path, depth: usize, found: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let entries = std::fs::read_dir(root).map_err(|error| Failure::io(&root.display().to_string(), &error))?;
    let mut names: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    names.sort();
    for path in names {
        let deeper = depth > 1 && path.is_dir() && !path.is_symlink();
        found.push(path.clone());
        if deeper {
            // A directory that may not be read hides nothing else.
            let _ = walk(&path, depth - 1, found);
        }
    }
    Ok(())
}
