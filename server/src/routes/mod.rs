//! The routes, each under `/` and under `/v1`.
//!
//! A handler of the lifecycle API is mounted through [`Scoped`] only, which takes none whose first
//! argument is not a [`Scope`]:
//!
//! ```compile_fail
//! use sandbox_server::routes::Scoped;
//! async fn everybody() -> &'static str { "everything" }
//! let route = Scoped::get(everybody);
//! ```
//!
//! ```
//! use sandbox_server::{routes::Scoped, scope::Scope};
//! async fn the_caller(scope: Scope) -> String { scope.namespace().to_owned() }
//! let route = Scoped::get(the_caller);
//! ```

mod body;
mod change;
mod create;
mod endpoint;
mod metadata;
mod open;
mod path;
mod read;
mod remove;
mod renew;

use axum::Router;
use axum::extract::Request;
use axum::handler::Handler;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{MethodFilter, MethodRouter, any, get, on, post};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer};

use crate::app::Shared;
use crate::auth;
use crate::error::{ApiError, Code};
use crate::layers::{self, Turnstile};
use crate::scope::Scope;

/// Argument lists that begin with the caller's scope.
pub trait ScopeFirst {}

impl<M> ScopeFirst for (M, Scope) {}
impl<M, A> ScopeFirst for (M, Scope, A) {}
impl<M, A, B> ScopeFirst for (M, Scope, A, B) {}
impl<M, A, B, C> ScopeFirst for (M, Scope, A, B, C) {}

/// The methods of one route, each of which knows its caller.
pub struct Scoped(MethodRouter<Shared>);

impl Scoped {
    fn of<H, T>(method: MethodFilter, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: ScopeFirst + 'static,
    {
        Self(on(method, handler))
    }

    /// A route that answers GET.
    #[must_use]
    pub fn get<H, T>(handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: ScopeFirst + 'static,
    {
        Self::of(MethodFilter::GET, handler)
    }

    /// A route that answers POST.
    #[must_use]
    pub fn post<H, T>(handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: ScopeFirst + 'static,
    {
        Self::of(MethodFilter::POST, handler)
    }

    /// A route that answers PATCH.
    #[must_use]
    pub fn patch<H, T>(handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: ScopeFirst + 'static,
    {
        Self::of(MethodFilter::PATCH, handler)
    }

    /// And DELETE.
    #[must_use]
    pub fn delete<H, T>(self, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: ScopeFirst + 'static,
    {
        Self(self.0.on(MethodFilter::DELETE, handler))
    }

    /// And POST.
    #[must_use]
    pub fn and_post<H, T>(self, handler: H) -> Self
    where
        H: Handler<T, Shared>,
        T: ScopeFirst + 'static,
    {
        Self(self.0.on(MethodFilter::POST, handler))
    }
}

/// Routes of the contract that this build does not serve: 501 says so, 404 would be a riddle.
const NOT_SERVED: [&str; 13] = [
    "/sandboxes/{id}/pause",
    "/sandboxes/{id}/resume",
    "/sandboxes/{id}/snapshots",
    "/snapshots",
    "/snapshots/{sid}",
    "/sandboxes/{id}/diagnostics/{what}",
    "/sandboxes/{id}/networkpolicy",
    "/sandboxes/{id}/proxy/{port}",
    "/sandboxes/{id}/proxy/{port}/{*path}",
    "/pools",
    "/pools/{name}",
    "/templates",
    "/templates/{tid}",
];

fn lifecycle() -> Router<Shared> {
    let served = [
        ("/sandboxes", Scoped::get(read::list).and_post(create::create)),
        ("/sandboxes/{id}", Scoped::get(read::get).delete(remove::delete)),
        ("/sandboxes/{id}/metadata", Scoped::patch(metadata::patch)),
        ("/sandboxes/{id}/renew-expiration", Scoped::post(renew::renew)),
        ("/sandboxes/{id}/endpoints/{port}", Scoped::get(endpoint::lookup)),
    ];
    let mut router = Router::new();
    for (path, Scoped(methods)) in served {
        router = router.route(path, methods);
    }
    for path in NOT_SERVED {
        router = router.route(path, any(not_served));
    }
    router
}

/// The whole server.
pub fn router(app: Shared) -> Router {
    let gate = Turnstile::new(app.config.server.limit_concurrency);
    let cors = CorsLayer::new()
        .allow_origin(AllowOrigin::mirror_request())
        .allow_credentials(true)
        .allow_methods(AllowMethods::mirror_request())
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([HeaderName::from_static("open-sandbox-origin"), HeaderName::from_static("x-request-id")])
        .max_age(std::time::Duration::from_secs(600));
    Router::new()
        .route("/health", get(open::health))
        .route("/ready", get(open::ready))
        .route("/version", get(open::version))
        .route("/metrics", get(open::metrics))
        .route("/v1/metrics/events", post(open::events))
        .merge(lifecycle())
        .nest("/v1", lifecycle())
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(CatchPanicLayer::custom(layers::panicked))
        .layer(from_fn_with_state(app.clone(), auth::admit))
        .layer(cors)
        .layer(from_fn_with_state(gate, layers::turnstile))
        .layer(from_fn_with_state(app.clone(), layers::observe))
        .layer(from_fn(name_the_server))
        .with_state(app)
}

async fn name_the_server(request: Request, next: axum::middleware::Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().insert(header::SERVER, HeaderValue::from_static("opensandbox-server"));
    response
}

async fn no_route(request: Request) -> Response {
    let path = request.uri().path();
    if path.len() > 1
        && let Some(slashless) = path.strip_suffix('/')
    {
        let target = match request.uri().query() {
            Some(query) => format!("{slashless}?{query}"),
            None => slashless.to_owned(),
        };
        // "//host" as a target would leave this server.
        if !target.starts_with("//")
            && let Ok(location) = HeaderValue::from_str(&target)
        {
            return (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, location)]).into_response();
        }
    }
    ApiError::new(StatusCode::NOT_FOUND, Code::NotFound, format!("there is no route {path}")).into_response()
}

async fn no_method(request: Request) -> ApiError {
    let message = format!("{} is not a method of {}", request.method(), request.uri().path());
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, Code::MethodNotAllowed, message)
}

async fn not_served(request: Request) -> ApiError {
    let message = format!("{} {} is not served by this build", request.method(), request.uri().path());
    ApiError::new(StatusCode::NOT_IMPLEMENTED, Code::NotImplemented, message)
}
