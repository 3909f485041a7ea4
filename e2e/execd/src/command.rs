//! Running a command and streaming what it tells as server-sent events.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::sse::{Event as Frame, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt, stream};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::Execd;
use crate::answer::Failure;
use crate::environment;
use crate::running::{Event, Order};

/// Body of `POST /command`.
#[derive(Deserialize)]
pub struct Request {
    command: Option<String>,
    argv: Option<Vec<String>>,
    cwd: Option<String>,
    #[serde(default)]
    background: bool,
    /// Milliseconds.
    timeout: Option<u64>,
    uid: Option<u32>,
    gid: Option<u32>,
    envs: Option<BTreeMap<String, String>>,
}

/// `POST /command`: runs it to its end, or in the background until somebody interrupts it.
pub async fn run(State(execd): State<Execd>, Json(request): Json<Request>) -> Result<Response, Failure> {
    let background = request.background;
    let (id, events) = execd.commands.start(order(request)?, background).map_err(Failure::bad)?;
    Ok(if background { told_at_once(&id) } else { told(&id, events) })
}

fn order(request: Request) -> Result<Order, Failure> {
    if request.gid.is_some() && request.uid.is_none() {
        return Err(Failure::bad("gid needs uid"));
    }
    let (argv, shown) = match (request.command, request.argv) {
        (Some(script), None) if !script.trim().is_empty() => (shell(&script), script),
        (None, Some(argv)) if argv.first().is_some_and(|program| !program.is_empty()) => {
            let shown = argv.join(" ");
            (argv, shown)
        }
        _ => {
            return Err(Failure::bad("give exactly one of command and argv, not empty"));
        }
    };
    let mut env = environment::kept();
    env.extend(request.envs.unwrap_or_default());
    let limit = request.timeout.filter(|limit| *limit > 0).map(Duration::from_millis);
    let cwd = request.cwd.filter(|cwd| !cwd.is_empty());
    Ok(Order { argv, shown, cwd, env, limit, uid: request.uid, gid: request.gid })
}

/// `bash` where there is one, since people write for it.
pub fn shell(script: &str) -> Vec<String> {
    let shell = if std::path::Path::new("/bin/bash").exists() { "/bin/bash" } else { "/bin/sh" };
    vec![shell.to_owned(), "-c".to_owned(), script.to_owned()]
}

/// The stream of a command that is followed.
pub fn told(id: &str, events: mpsc::Receiver<Event>) -> Response {
    let started = std::time::Instant::now();
    let first = stream::iter([frame("init", json!({ "text": id }))]);
    let rest =
        stream::unfold(events, |mut events| async move { Some((events.recv().await?, events)) }).map(move |event| {
            match event {
                Event::Stdout(text) => frame("stdout", json!({ "text": text })),
                Event::Stderr(text) => frame("stderr", json!({ "text": text })),
                Event::Ended(0) => frame("execution_complete", json!({ "execution_time": millis(started.elapsed()) })),
                Event::Ended(code) => {
                    let traceback = [format!("exit status {code}")];
                    let error =
                        json!({ "ename": "CommandExecError", "evalue": code.to_string(), "traceback": traceback });
                    frame("error", json!({ "error": error }))
                }
            }
        });
    sse(first.chain(rest))
}

fn told_at_once(id: &str) -> Response {
    let done = frame("execution_complete", json!({ "execution_time": 0 }));
    sse(stream::iter([frame("init", json!({ "text": id })), done]))
}

fn sse(frames: impl Stream<Item = Frame> + Send + 'static) -> Response {
    Sse::new(frames.map(Ok::<_, Infallible>)).into_response()
}

fn frame(kind: &str, mut event: Value) -> Frame {
    event["type"] = kind.into();
    event["timestamp"] = Timestamp::now().as_millisecond().into();
    Frame::default().data(event.to_string())
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// `DELETE /command?id=`.
#[derive(Deserialize)]
pub struct Named {
    id: String,
}

/// Kills a running command; one that has ended is no error.
pub async fn interrupt(State(execd): State<Execd>, Query(named): Query<Named>) -> Result<(), Failure> {
    if !execd.commands.interrupt(&named.id) && execd.commands.get(&named.id).is_none() {
        return Err(Failure::bad(format!("there is no command {}", named.id)));
    }
    Ok(())
}

/// `GET /command/status/{id}`.
pub async fn status(State(execd): State<Execd>, Path(id): Path<String>) -> Result<Json<Value>, Failure> {
    let record = execd.commands.get(&id).ok_or_else(|| Failure::missing(format!("there is no command {id}")))?;
    Ok(Json(json!({
        "id": id,
        "content": record.shown,
        "running": record.finished_at.is_none(),
        "exit_code": record.exit_code,
        "error": record.exit_code.filter(|code| *code != 0).map(|code| format!("exit status {code}")).unwrap_or_default(),
        "started_at": record.started_at,
        "finished_at": record.finished_at,
    })))
}

/// From where `logs` is to go on.
#[derive(Deserialize)]
pub struct From {
    cursor: Option<usize>,
}

/// `GET /command/{id}/logs?cursor=`: lines after the cursor; the next one is in a header.
pub async fn logs(
    State(execd): State<Execd>,
    Path(id): Path<String>,
    Query(from): Query<From>,
) -> Result<impl IntoResponse, Failure> {
    let record = execd.commands.get(&id).ok_or_else(|| Failure::missing(format!("there is no command {id}")))?;
    let lines: String =
        record.lines.iter().skip(from.cursor.unwrap_or(0)).flat_map(|line| [line.as_str(), "\n"]).collect();
    let cursor = record.lines.len().to_string();
    Ok(([("content-type", "text/plain; charset=utf-8".to_owned()), ("EXECD-COMMANDS-TAIL-CURSOR", cursor)], lines))
}
