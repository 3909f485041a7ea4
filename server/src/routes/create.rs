//! Create: write one custom resource, follow it in the cache, answer when it runs.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use uuid::Uuid;

use super::body::Body;
use crate::app::{App, Shared};
use crate::cluster::{Failure, PoolCheck};
use crate::create::{self, Given, Order};
use crate::error::{ApiError, Code};
use crate::leftover::Guard;
use crate::scope::Scope;
use crate::store::Key;
use crate::view::View;
use crate::wait;
use crate::wire::create::CreateRequest;
use crate::wire::{sandbox, time};
use crate::words;

pub(super) async fn create(
    scope: Scope,
    State(app): State<Shared>,
    Body(body): Body,
) -> Result<(StatusCode, Json<Value>), ApiError> {
    let created = run(&app, &scope, &body).await;
    app.metrics.create_ended(created.as_ref().map_or_else(|error| error.code.as_str(), |_| "OK"));
    created.map(|answer| (StatusCode::ACCEPTED, Json(answer)))
}

async fn run(app: &App, scope: &Scope, body: &Value) -> Result<Value, ApiError> {
    let request = CreateRequest::read(body)?;
    let given = given(scope);
    let order = create::plan(&app.config, app.template.as_ref(), &request, &given)?;
    if let Some(pool) = &order.pool {
        require_pool(app, scope, pool).await?;
    }
    let key = Key { kind: order.kind, namespace: given.namespace.clone(), name: given.id.clone() };
    // From here on, whatever ends this request but success is cleaned up behind it: an error, the
    // time limit, and a caller who hangs up, which drops this future where it stands.
    let mut guard = app.janitor.guard(key.clone());
    match write_and_wait(app, &order, &given, key, &mut guard).await {
        Ok(view) => {
            guard.keep();
            Ok(sandbox::created(&view, &order.entrypoint, request.metadata.as_ref()))
        }
        Err(error) => {
            guard.discard().await;
            Err(error)
        }
    }
}

fn given(scope: &Scope) -> Given {
    Given {
        id: Uuid::new_v4().to_string(),
        namespace: scope.namespace().to_owned(),
        now: time::now(),
        secure_token: token(),
        egress_token: token(),
    }
}

/// 24 random bytes: two uuids' worth of randomness, without their fixed bits.
fn token() -> String {
    let (a, b) = (Uuid::new_v4(), Uuid::new_v4());
    let bytes: Vec<u8> = a
        .as_bytes()
        .iter()
        .chain(b.as_bytes())
        .copied()
        .enumerate()
        .filter(|(i, _)| !matches!(i % 16, 6..=9))
        .map(|(_, byte)| byte)
        .collect();
    URL_SAFE_NO_PAD.encode(bytes)
}

async fn require_pool(app: &App, scope: &Scope, pool: &str) -> Result<(), ApiError> {
    let missing = || ApiError::new(StatusCode::NOT_FOUND, Code::PoolNotFound, format!("there is no pool {pool}"));
    // What cannot be an object's name cannot be asked for either.
    let name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.';
    if pool.len() > 253 || !pool.bytes().all(name) || pool.starts_with(['-', '.']) {
        return Err(missing());
    }
    match app.cluster.pool(scope.namespace(), pool).await {
        Ok(PoolCheck::There) => Ok(()),
        Ok(PoolCheck::Missing) => Err(missing()),
        Err(failure) => {
            tracing::error!(pool, error = %failure, "look for the pool");
            Err(ApiError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                Code::ApiError,
                format!("pool {pool} cannot be read; the server's log says why"),
            ))
        }
    }
}

async fn write_and_wait(
    app: &App,
    order: &Order,
    given: &Given,
    key: Key,
    guard: &mut Guard,
) -> Result<Arc<View>, ApiError> {
    let started = std::time::Instant::now();
    let owned = ensure_claims(app, order, given, guard).await?;
    let mut follower = app.store.follow(key);
    guard.sending();
    let view = match app.cluster.create(order.kind, &given.namespace, &order.manifest).await {
        Ok(view) => view,
        Err(failure) => {
            if failure.refused() {
                guard.refused();
            }
            return Err(refusal(&failure, given));
        }
    };
    guard.made(&view.uid);
    let owner = json!({
        "apiVersion": order.manifest["apiVersion"],
        "kind": view.kind.as_str(),
        "name": view.name,
        "uid": view.uid,
        "controller": false,
    });
    if let Some(pull) = &order.pull {
        let secret = pull.secret(given, &owner);
        app.cluster.create_secret(&given.namespace, &secret).await.map_err(|failure| failure.told(&given.id))?;
    }
    for claim in owned {
        app.cluster.own_claim(&given.namespace, &claim, &owner).await.map_err(|failure| failure.told(&given.id))?;
    }
    let limits = wait::Limits {
        overall: app.config.kubernetes.create_timeout,
        without_room: app.config.kubernetes.pool_acquisition_timeout,
    };
    let running = wait::until_running(&mut follower, limits, order.pool.as_deref()).await?;
    app.metrics.waited(started.elapsed());
    Ok(running)
}

fn refusal(failure: &Failure, given: &Given) -> ApiError {
    if failure.over_quota() {
        tracing::warn!(id = given.id, error = %failure, "create refused");
        let message = "a resource quota of the namespace does not allow another sandbox; delete some or have it raised";
        return ApiError::new(StatusCode::FORBIDDEN, Code::QuotaExceeded, message);
    }
    match failure.code() {
        Some(404) => {
            tracing::error!(id = given.id, error = %failure, "create refused");
            ApiError::bad(
                Code::ApiError,
                format!("the namespace {} or the resource kinds are missing on the cluster", given.namespace),
            )
        }
        Some(400 | 422) => {
            tracing::warn!(id = given.id, error = %failure, "create refused");
            ApiError::bad(
                Code::InvalidParameter,
                "the cluster refused the sandbox as invalid; the server's log says which field",
            )
        }
        Some(_) | None => failure.told(&given.id),
    }
}

/// Sees to it that every claim is there. Gives those that are to end with the sandbox.
async fn ensure_claims(app: &App, order: &Order, given: &Given, guard: &mut Guard) -> Result<Vec<String>, ApiError> {
    let mut owned = Vec::new();
    for pvc in &order.claims {
        let name = &pvc.claim_name;
        let unusable = |failure: &Failure| {
            tracing::error!(claim = name, error = %failure, "claim of a sandbox");
            let message = format!("the claim {name} could not be read or made; the server's log says why");
            ApiError::new(StatusCode::INTERNAL_SERVER_ERROR, Code::InternalError, message)
        };
        match app.cluster.claim(&given.namespace, name).await {
            Err(failure) => return Err(unusable(&failure)),
            Ok(Some(found)) => {
                let labels = found.metadata.labels.unwrap_or_default();
                if labels.get(words::VOLUME_MANAGED_BY).is_some_and(|by| by == "server")
                    && labels.contains_key(words::ID)
                {
                    let message = format!(
                        "the claim {name} belongs to another sandbox and ends with it; use a claim of your own"
                    );
                    return Err(ApiError::new(StatusCode::CONFLICT, Code::InvalidParameter, message));
                }
            }
            // Without leave to make it, its Pod waits until somebody does.
            Ok(None) if !pvc.create_if_not_exists => {}
            Ok(None) => {
                let manifest = create::claim_manifest(&app.config.storage, given, pvc);
                match app.cluster.create_claim(&given.namespace, &manifest).await {
                    Ok(()) => {
                        guard.made_claim(name);
                        if pvc.delete_on_termination {
                            owned.push(name.clone());
                        }
                    }
                    Err(failure) if failure.code() == Some(409) => {
                        let message = format!("the claim {name} was made by somebody else just now; try again");
                        return Err(ApiError::unavailable(Code::ApiError, message));
                    }
                    Err(failure) if failure.code() == Some(403) => {
                        tracing::warn!(claim = name, error = %failure, "may not make the claim; the pod waits for it");
                    }
                    Err(failure) => return Err(unusable(&failure)),
                }
            }
        }
    }
    Ok(owned)
}
