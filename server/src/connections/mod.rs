//! Connections: accepted, served, and closed on those who hold one without using it.
//!
//! A connection that waits for its next request is closed after `server.timeout_keep_alive`; one whose request line and
//! headers do not come to an end within [`HEAD`] of their first byte is cut off. A request that is being served may take
//! as long as it likes. hyper's own limit on heads cannot tell those two apart: it runs while nothing is sent, too.

mod phase;

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::serve::Listener;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tower::ServiceExt as _;

use phase::{Clock, Metered, Phase};

/// How long the line and headers of a request may take from their first byte; also how long a connection that was asked
/// to close may take to do so.
pub const HEAD: Duration = Duration::from_secs(10);

/// Serves every connection until `stop`, then takes no more, lets requests in flight finish and returns.
pub async fn serve(
    mut listener: TcpListener,
    router: Router,
    keep_alive: Duration,
    stop: impl Future<Output = ()> + Send,
) {
    let stopped = watch::Sender::new(false);
    let mut open = JoinSet::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        tokio::select! {
            (stream, _) = Listener::accept(&mut listener) => {
                open.spawn(attend(stream, router.clone(), keep_alive, stopped.subscribe()));
            }
            Some(ended) = open.join_next() => report(ended),
            () = &mut stop => break,
        }
    }
    drop(listener);
    stopped.send_replace(true);
    while let Some(ended) = open.join_next().await {
        report(ended);
    }
}

fn report(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "serving a connection failed");
    }
}

/// Serves one connection to its end.
async fn attend(stream: TcpStream, router: Router, keep_alive: Duration, mut stopped: watch::Receiver<bool>) {
    let clock = Clock::start();
    let mut phases = clock.phases();
    let answer = {
        let clock = clock.clone();
        move |request: Request<Incoming>| {
            let busy = clock.busy();
            let answer = router.clone().oneshot(request.map(Body::new));
            async move { answer.await.map(|response| response.map(|body| busy.until_sent(body))) }
        }
    };
    let io = TokioIo::new(Metered::new(stream, clock));
    let mut builder = http1::Builder::new();
    builder.header_read_timeout(None);
    let mut connection = std::pin::pin!(builder.serve_connection(io, service_fn(answer)));
    let mut asked_to_close: Option<Instant> = None;
    loop {
        let phase = *phases.borrow_and_update();
        tokio::select! {
            ended = connection.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "a connection ended");
                }
                return;
            }
            _ = phases.changed() => continue,
            () = passed(due(phase, keep_alive, asked_to_close)) => {
                if matches!(phase, Phase::Head(_)) || asked_to_close.is_some() {
                    tracing::debug!(?phase, "cut a connection off");
                    return;
                }
            }
            _ = stopped.wait_for(|stopped| *stopped), if asked_to_close.is_none() => {}
        }
        connection.as_mut().graceful_shutdown();
        asked_to_close = Some(Instant::now());
    }
}

/// When a connection in this phase has had its time.
fn due(phase: Phase, keep_alive: Duration, asked_to_close: Option<Instant>) -> Option<Instant> {
    match (phase, asked_to_close) {
        (Phase::Busy, _) => None,
        (Phase::Head(since), None) => Some(since + HEAD),
        (Phase::Idle(since), None) => Some(since + keep_alive),
        // What was going on when it was asked came first.
        (Phase::Head(since) | Phase::Idle(since), Some(asked)) => Some(since.max(asked) + HEAD),
    }
}

async fn passed(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
