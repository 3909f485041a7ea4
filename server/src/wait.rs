//! Waiting for a new sandbox: driven by what the cache hears, never by polling.

use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use sandbox_api::Reason;
use tokio::time::{Instant, sleep_until};

use crate::error::{ApiError, Code};
use crate::store::{Follower, Sighting};
use crate::view::{State, StateReason, View};

/// How long a create may wait.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For a running sandbox, all in all.
    pub overall: Duration,
    /// In all, while the Pool has no room.
    pub without_room: Duration,
}

/// What a look at a new sandbox says.
#[derive(Debug, PartialEq)]
enum Verdict {
    /// It runs and can be reached.
    Running,
    /// Not yet; there may be no room for it.
    Waiting { no_room: bool },
    /// It will not run.
    Never(ApiError),
}

/// Follows a new sandbox until it runs *and* has an address: SDKs look up an endpoint next, and
/// some of them give up on the first miss.
///
/// # Errors
/// 429, 403, 404, 500 when it will not run, 504 when it did not in time.
pub async fn until_running(follower: &mut Follower, limits: Limits, pool: Option<&str>) -> Result<Arc<View>, ApiError> {
    let deadline = Instant::now() + limits.overall;
    let mut spent = Duration::ZERO;
    loop {
        let sighting = follower.latest();
        let (no_room, view) = match &sighting {
            Sighting::Live(view) => match look(view, pool) {
                Verdict::Running => return Ok(Arc::clone(view)),
                Verdict::Never(error) => return Err(error),
                Verdict::Waiting { no_room } => (no_room, Some(view)),
            },
            Sighting::Nothing => (false, None),
            Sighting::Gone => return Err(failed("the sandbox was deleted while it started")),
        };
        let began = Instant::now();
        let until = if no_room { deadline.min(began + limits.without_room.saturating_sub(spent)) } else { deadline };
        tokio::select! {
            () = follower.changed() => {}
            () = sleep_until(until) => {
                if no_room && until < deadline {
                    return Err(no_room_for(view.map(Arc::as_ref), limits));
                }
                return Err(too_late(view.map(Arc::as_ref), limits));
            }
        }
        if no_room {
            spent += began.elapsed();
            if spent >= limits.without_room {
                return Err(no_room_for(view.map(Arc::as_ref), limits));
            }
        }
    }
}

fn look(view: &View, pool: Option<&str>) -> Verdict {
    if let (Some(pool), Some(trouble)) = (pool, &view.trouble)
        && matches!(trouble.reason, Reason::PoolNotFound | Reason::PoolGone)
    {
        let message = format!("there is no pool {pool}");
        return Verdict::Never(ApiError::new(StatusCode::NOT_FOUND, Code::PoolNotFound, message));
    }
    if let Some(trouble) = view.trouble.as_ref().filter(|t| t.reason == Reason::QuotaExceeded) {
        return Verdict::Never(ApiError::new(StatusCode::FORBIDDEN, Code::QuotaExceeded, trouble.to_string()));
    }
    match view.standing.state {
        State::Running | State::Allocated if view.ip.is_some() => Verdict::Running,
        State::Failed => Verdict::Never(failed(&view.standing.message)),
        State::Stopping => Verdict::Never(failed("the sandbox was deleted while it started")),
        State::Pending | State::Running | State::Allocated | State::Pausing | State::Paused | State::Resuming => {
            Verdict::Waiting { no_room: view.standing.reason == StateReason::PoolCapacityExhausted }
        }
    }
}

fn failed(message: &str) -> ApiError {
    ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, Code::PodFailed, message)
}

fn no_room_for(view: Option<&View>, limits: Limits) -> ApiError {
    let seconds = limits.without_room.as_secs().max(1);
    let why = view.map_or("the pool is at its limit", |view| view.standing.message.as_str());
    let message = format!("no room in the pool for {seconds} s ({why}); try again later, or have its poolMax raised");
    ApiError::new(StatusCode::TOO_MANY_REQUESTS, Code::PoolCapacityExhausted, message).retry_after(seconds)
}

fn too_late(view: Option<&View>, limits: Limits) -> ApiError {
    let seconds = limits.overall.as_secs();
    let why = view.map_or_else(
        || "nothing was heard of it".to_owned(),
        |view| match &view.trouble {
            Some(trouble) => trouble.to_string(),
            None => view.standing.message.clone(),
        },
    );
    let message = format!("the sandbox was not running within {seconds} s and was deleted: {why}");
    ApiError::new(StatusCode::GATEWAY_TIMEOUT, Code::PodReadyTimeout, message)
}

#[cfg(test)]
mod tests;
