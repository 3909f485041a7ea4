//! Asks the API server who a token belongs to and what that user may do.
//! Nothing is stored by these two "creates".

#![expect(clippy::disallowed_methods, reason = "a review is a create that stores nothing")]

use std::time::Duration;

use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{NonResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::timeout;

const CALL: Duration = Duration::from_secs(5);

/// What the API server says of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// This user may.
    Allowed,
    /// The token is nobody's.
    Unknown,
    /// This user may not.
    Forbidden(String),
}

/// Whether the owner of `token` may `verb` the path `path`.
///
/// # Errors
/// When the API server does not answer or this process may not ask.
pub async fn review(client: &Client, token: &str, verb: &str, path: &str) -> anyhow::Result<Verdict> {
    let Some(user) = authenticate(client, token).await? else { return Ok(Verdict::Unknown) };
    let name = user.username.clone().unwrap_or_default();
    let attributes = NonResourceAttributes { path: Some(path.to_owned()), verb: Some(verb.to_owned()) };
    let asked = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: user.username,
            uid: user.uid,
            groups: user.groups,
            extra: user.extra,
            non_resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = timeout(CALL, reviews.create(&PostParams::default(), &asked)).await??;
    let allowed = answer.status.is_some_and(|status| status.allowed);
    Ok(if allowed { Verdict::Allowed } else { Verdict::Forbidden(name) })
}

async fn authenticate(client: &Client, token: &str) -> anyhow::Result<Option<UserInfo>> {
    let asked = TokenReview {
        spec: TokenReviewSpec { token: token.to_owned(), ..TokenReviewSpec::default() },
        ..TokenReview::default()
    };
    let reviews: Api<TokenReview> = Api::all(client.clone());
    let answer = timeout(CALL, reviews.create(&PostParams::default(), &asked)).await??;
    let status = answer.status.unwrap_or_default();
    Ok(status.user.filter(|_| status.authenticated == Some(true)))
}
