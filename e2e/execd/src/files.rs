//! Files: looking at them, moving, removing, changing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use axum::Json;
use axum::extract::{Query, RawQuery};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::answer::Failure;
use crate::metadata::{FileInfo, Permission};

/// Every value of `path` in a query; serde's form reader keeps only one.
pub fn paths(query: Option<&str>) -> Result<Vec<PathBuf>, Failure> {
    let query = query.unwrap_or_default();
    let uri: axum::http::Uri =
        format!("/?{query}").parse().map_err(|_| Failure::bad("the query is not well formed"))?;
    let pairs: Query<Vec<(String, String)>> =
        Query::try_from_uri(&uri).map_err(|error| Failure::bad(error.to_string()))?;
    let paths: Vec<PathBuf> =
        pairs.0.into_iter().filter(|(key, _)| key == "path").map(|(_, value)| value.into()).collect();
    if paths.is_empty() { Err(Failure::bad("path is missing")) } else { Ok(paths) }
}

/// `GET /files/info?path=…&path=…`.
pub async fn info(RawQuery(query): RawQuery) -> Result<Json<BTreeMap<String, FileInfo>>, Failure> {
    let mut all = BTreeMap::new();
    for path in paths(query.as_deref())? {
        all.insert(path.display().to_string(), FileInfo::of(&path)?);
    }
    Ok(Json(all))
}

/// `DELETE /files?path=…`: one that is not there is no error.
pub async fn remove(RawQuery(query): RawQuery) -> Result<(), Failure> {
    for path in paths(query.as_deref())? {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(Failure::io(&path.display().to_string(), &error));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}

/// One move.
#[derive(Deserialize)]
pub struct Move {
    src: String,
    dest: String,
}

/// `POST /files/mv`.
pub async fn rename(Json(moves): Json<Vec<Move>>) -> Result<(), Failure> {
    for Move { src, dest } in moves {
        if let Some(parent) = Path::new(&dest).parent() {
            std::fs::create_dir_all(parent).map_err(|error| Failure::io(&dest, &error))?;
        }
        std::fs::rename(&src, &dest).map_err(|error| Failure::io(&src, &error))?;
    }
    Ok(())
}

/// `POST /files/permissions`.
pub async fn permit(Json(all): Json<BTreeMap<PathBuf, Permission>>) -> Result<(), Failure> {
    all.iter().try_for_each(|(path, permission)| permission.apply(path))
}

/// One replacement.
#[derive(Deserialize)]
pub struct Replace {
    old: String,
    new: String,
}

/// `POST /files/replace`: answers how often each was replaced.
pub async fn replace(Json(all): Json<BTreeMap<String, Replace>>) -> Result<Json<Value>, Failure> {
    let mut counts = serde_json::Map::new();
    for (path, Replace { old, new }) in all {
        if old.is_empty() {
            return Err(Failure::bad(format!("{path}: old is empty")));
        }
        let text = std::fs::read_to_string(&path).map_err(|error| Failure::io(&path, &error))?;
        let count = text.matches(&old).count();
        if count > 0 {
            std::fs::write(&path, text.replace(&old, &new)).map_err(|error| Failure::io(&path, &error))?;
        }
        counts.insert(path, json!({ "replacedCount": count }));
    }
    Ok(Json(counts.into()))
}
