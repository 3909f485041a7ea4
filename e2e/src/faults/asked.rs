//! A request as the proxy understands it.

use std::fmt;

use bytes::Bytes;
use http::{Method, Uri};
use serde_json::Value;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Reads one object.
    Get,
    /// Reads many.
    List,
    /// Follows many.
    Watch,
    /// POST.
    Create,
    /// PATCH.
    Patch,
    /// PUT.
    Replace,
    /// DELETE.
    Delete,
}

impl Verb {
    /// All that write.
    pub const WRITES: [Self; 4] = [Self::Create, Self::Patch, Self::Replace, Self::Delete];

    /// Its word in lower case.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::List => "list",
            Self::Watch => "watch",
            Self::Create => "create",
            Self::Patch => "patch",
            Self::Replace => "replace",
            Self::Delete => "delete",
        }
    }

    /// Whether it writes.
    #[must_use]
    pub fn writes(self) -> bool {
        Self::WRITES.contains(&self)
    }
}

/// One request.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What it does.
    pub verb: Verb,
    /// The plural with its subresource: `pools/status`; the path's first word where there is none (`version`).
    pub resource: String,
    /// The namespace, or empty.
    pub namespace: String,
    /// The object's name, or empty.
    pub name: String,
    /// What was sent along.
    pub body: Bytes,
}

impl Asked {
    /// Understands a request.
    #[must_use]
    pub fn read(method: &Method, uri: &Uri, body: Bytes) -> Self {
        let (resource, namespace, name) = place(uri.path());
        let watches = uri.query().unwrap_or_default().split('&').any(|pair| matches!(pair, "watch=true" | "watch=1"));
        let verb = match *method {
            Method::POST => Verb::Create,
            Method::PATCH => Verb::Patch,
            Method::PUT => Verb::Replace,
            Method::DELETE => Verb::Delete,
            _ if watches => Verb::Watch,
            _ if name.is_empty() && uri.path().starts_with("/api") => Verb::List,
            _ => Verb::Get,
        };
        Self { verb, resource, namespace, name, body }
    }

    /// What was sent along, if it is JSON; null otherwise.
    #[must_use]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body without the object's version as a condition: the write then goes through whatever happened since.
    /// The uid stays. Leases keep theirs, or nobody would lead.
    #[must_use]
    pub fn without_version(&self) -> Option<Bytes> {
        if self.resource == "leases" {
            return None;
        }
        let mut body = self.json();
        let place = match self.verb {
            Verb::Patch | Verb::Replace => "metadata",
            Verb::Delete => "preconditions",
            Verb::Get | Verb::List | Verb::Watch | Verb::Create => return None,
        };
        body.get_mut(place)?.as_object_mut()?.remove("resourceVersion")?;
        serde_json::to_vec(&body).ok().map(Bytes::from)
    }
}

impl fmt::Display for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}/{}", self.verb.as_str(), self.resource, self.namespace, self.name)
    }
}

fn place(path: &str) -> (String, String, String) {
    let mut parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let depth = match parts.first() {
        Some(&"api") => 2,
        Some(&"apis") => 3,
        Some(_) | None => 0,
    };
    parts.drain(..depth.min(parts.len()));
    let mut namespace = "";
    if parts.len() > 2 && parts[0] == "namespaces" {
        namespace = parts[1];
        parts.drain(..2);
    }
    let mut parts = parts.into_iter();
    let (resource, name) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let resource = match parts.next() {
        Some(sub) => format!("{resource}/{sub}"),
        None => resource.to_owned(),
    };
    (resource, namespace.to_owned(), name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(method: Method, uri: &'static str) -> String {
        Asked::read(&method, &Uri::from_static(uri), Bytes::new()).to_string()
    }

    #[test]
    fn a_request_is_understood_by_its_path() {
        assert_eq!(read(Method::GET, "/api/v1/namespaces/ns/pods/a"), "get pods ns/a");
        assert_eq!(read(Method::GET, "/api/v1/pods?labelSelector=x&watch=true"), "watch pods /");
        assert_eq!(read(Method::GET, "/api/v1/pods?limit=500"), "list pods /");
        let status = "/apis/sandbox.opensandbox.io/v1alpha1/namespaces/ns/pools/p/status?";
        assert_eq!(read(Method::PATCH, status), "patch pools/status ns/p");
        assert_eq!(read(Method::PUT, "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l"), "replace leases ns/l");
        assert_eq!(read(Method::POST, "/api/v1/namespaces/ns/pods"), "create pods ns/");
        assert_eq!(read(Method::GET, "/version"), "get version /");
    }

    #[test]
    fn only_the_version_is_taken_from_a_write_and_none_from_a_lease() {
        let with = |method, uri: &'static str, body: &'static str| {
            let asked = Asked::read(&method, &Uri::from_static(uri), Bytes::from_static(body.as_bytes()));
            asked.without_version().map(|body| String::from_utf8_lossy(&body).into_owned())
        };
        let pod = "/api/v1/namespaces/ns/pods/a";
        let patched = with(Method::PATCH, pod, r#"{"metadata":{"resourceVersion":"7","uid":"u"}}"#);
        assert_eq!(patched.as_deref(), Some(r#"{"metadata":{"uid":"u"}}"#));
        let deleted = with(Method::DELETE, pod, r#"{"preconditions":{"resourceVersion":"7","uid":"u"}}"#);
        assert_eq!(deleted.as_deref(), Some(r#"{"preconditions":{"uid":"u"}}"#));
        assert_eq!(with(Method::DELETE, pod, r#"{"preconditions":{"uid":"u"}}"#), None);
        let lease = "/apis/coordination.k8s.io/v1/namespaces/ns/leases/l";
        assert_eq!(with(Method::PUT, lease, r#"{"metadata":{"resourceVersion":"7"}}"#), None);
    }
}
