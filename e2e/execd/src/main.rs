//! A stand-in for execd in tests: the routes that the SDKs use to run commands and move files, on port 44772.
//!
//! It is our own and small: no code interpreter, no isolated sessions, no identities. What it has behaves as
//! `spec/lifecycle-api.md` §5.4 says and as the unmodified SDKs need it.

mod answer;
mod command;
mod directories;
mod download;
mod environment;
mod files;
mod init;
mod metadata;
mod metrics;
mod owner;
mod pattern;
mod running;
mod session;
mod upload;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, bail};
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::routing::{delete, get, post};
use tokio::net::TcpListener;

use crate::running::Commands;
use crate::session::Sessions;

/// The port that SDKs ask the server for.
const PORT: u16 = 44772;

/// What the routes share.
#[derive(Clone, Default)]
pub struct Execd {
    /// All commands since the start.
    pub commands: Arc<Commands>,
    /// Shells whose directory and variables are kept between commands.
    pub sessions: Arc<Sessions>,
}

struct Arguments {
    listen: SocketAddr,
    /// The entry point to start and follow.
    init: Option<Vec<String>>,
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    let arguments = parse(std::env::args().skip(1))?;
    if let Some(entry_point) = &arguments.init {
        let listen = ["--listen".to_owned(), arguments.listen.to_string()];
        std::process::exit(init::follow(entry_point, &listen).await?);
    }
    let listener =
        TcpListener::bind(arguments.listen).await.with_context(|| format!("cannot listen on {}", arguments.listen))?;
    eprintln!("execd: listening on {}", listener.local_addr()?);
    axum::serve(listener, routes(Execd::default())).await.context("cannot serve")
}

fn routes(execd: Execd) -> Router {
    Router::new()
        .route("/ping", get(|| async { "pong" }))
        .route("/metrics", get(metrics::read))
        .route("/command", post(command::run).delete(command::interrupt))
        .route("/command/status/{id}", get(command::status))
        .route("/command/{id}/logs", get(command::logs))
        .route("/session", post(session::create))
        .route("/session/{id}", delete(session::remove))
        .route("/session/{id}/run", post(session::run))
        .route("/files", delete(files::remove))
        .route("/files/upload", post(upload::upload).layer(DefaultBodyLimit::disable()))
        .route("/files/download", get(download::download))
        .route("/files/info", get(files::info))
        .route("/files/mv", post(files::rename))
        .route("/files/permissions", post(files::permit))
        .route("/files/replace", post(files::replace))
        .route("/files/search", get(directories::search))
        .route("/directories", post(directories::create).delete(directories::remove))
        .route("/directories/list", get(directories::list))
        .fallback(answer::nothing_here)
        .with_state(execd)
}

fn parse(mut arguments: impl Iterator<Item = String>) -> anyhow::Result<Arguments> {
    let mut parsed = Arguments { listen: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), PORT), init: None };
    let mut init = false;
    while let Some(argument) = arguments.next() {
        match argument.trim_start_matches('-') {
            "init" => init = true,
            "listen" => {
                let text = arguments.next().context("--listen needs IP:port")?;
                parsed.listen = text.parse().with_context(|| format!("--listen {text}: give IP:port"))?;
            }
            "" if init => parsed.init = Some(arguments.by_ref().collect()),
            _ => bail!("unknown argument {argument:?}; usage: execd [--listen IP:PORT] [--init -- COMMAND...]"),
        }
    }
    if init && parsed.init.as_ref().is_none_or(Vec::is_empty) {
        bail!("--init needs -- and the command to start");
    }
    Ok(parsed)
}
