//! Sessions: shells whose directory and exported variables live on from one command to the next.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{Path, State};
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::Execd;
use crate::answer::Failure;
use crate::command::{shell, told};
use crate::environment;
use crate::running::Order;

/// All sessions, by id: the directory that each one starts in.
#[derive(Default)]
pub struct Sessions(Mutex<HashMap<String, Option<String>>>);

/// Optional body of `POST /session`.
#[derive(Default, Deserialize)]
pub struct Create {
    cwd: Option<String>,
}

/// Body of `POST /session/{id}/run`.
#[derive(Deserialize)]
pub struct Run {
    command: String,
    cwd: Option<String>,
    /// Milliseconds.
    timeout: Option<u64>,
}

/// `POST /session`.
pub async fn create(State(execd): State<Execd>, body: Bytes) -> Result<Json<Value>, Failure> {
    let create: Create = if body.is_empty() {
        Create::default()
    } else {
        serde_json::from_slice(&body).map_err(|error| Failure::bad(format!("the body is not valid: {error}")))?
    };
    let id = uuid::Uuid::new_v4().simple().to_string();
    execd.sessions.0.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone(), create.cwd);
    Ok(Json(json!({ "session_id": id })))
}

/// `POST /session/{id}/run`.
pub async fn run(
    State(execd): State<Execd>,
    Path(id): Path<String>,
    Json(run): Json<Run>,
) -> Result<Response, Failure> {
    let start = execd.sessions.0.lock().unwrap_or_else(PoisonError::into_inner).get(&id).cloned();
    let start = start.ok_or_else(|| Failure::missing(format!("there is no session {id}")))?;
    let kept = state(&id);
    let state = kept.display();
    // Written whatever way the command leaves the shell; a given cwd is for this command and those after it.
    let enter = run.cwd.as_ref().map(|_| "cd -- \"$EXECD_SESSION_CWD\" || exit 1\n").unwrap_or_default();
    let script = format!(
        "[ -f {state} ] && . {state}\ntrap '{{ export -p; printf \"cd -- \"; printf %s \"$PWD\" | \
         sed \"s/[^A-Za-z0-9_\\/.-]/\\\\\\\\&/g\"; echo; }} > {state}' EXIT\n{enter}{}\n",
        run.command
    );
    let mut env = environment::kept();
    if let Some(directory) = &run.cwd {
        env.insert("EXECD_SESSION_CWD".to_owned(), directory.clone());
    }
    let order = Order {
        argv: shell(&script),
        shown: run.command,
        cwd: start,
        env,
        limit: run.timeout.filter(|limit| *limit > 0).map(Duration::from_millis),
        uid: None,
        gid: None,
    };
    let (command, events) = execd.commands.start(order, false).map_err(Failure::bad)?;
    Ok(told(&command, events))
}

/// `DELETE /session/{id}`.
pub async fn remove(State(execd): State<Execd>, Path(id): Path<String>) -> Result<(), Failure> {
    let removed = execd.sessions.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&id);
    if removed.is_none() {
        return Err(Failure::missing(format!("there is no session {id}")));
    }
    let _ = std::fs::remove_file(state(&id));
    Ok(())
}

fn state(id: &str) -> PathBuf {
    std::env::temp_dir().join(format!("execd-session-{id}"))
}
