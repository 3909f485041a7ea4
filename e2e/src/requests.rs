//! What the API server was asked, from its own counters.

use std::collections::BTreeMap;
use std::fmt;

/// One kind of request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Request {
    /// `POST`, `PATCH`, `APPLY`, `PUT`, `DELETE`, `GET`, `LIST`, `WATCH`, …
    pub verb: String,
    /// Resource with its subresource: `pods/status`.
    pub resource: String,
}

impl Request {
    /// Whether it writes.
    #[must_use]
    pub fn is_write(&self) -> bool {
        matches!(self.verb.as_str(), "POST" | "PUT" | "PATCH" | "APPLY" | "DELETE")
    }

    /// Whether it is a write on the budget of claims: the client's own, the operator's and the garbage collector's, but
    /// neither the kubelet's nor those that a cluster makes for itself.
    #[must_use]
    pub fn is_for_claims(&self) -> bool {
        let (resource, sub) = self.resource.split_once('/').unwrap_or((&self.resource, ""));
        let of_pod = resource == "pods" && !matches!(sub, "status" | "binding");
        let ours = matches!(resource, "batchsandboxes" | "sandboxes" | "pools" | "controllerrevisions");
        self.is_write() && (of_pod || ours)
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.verb, self.resource)
    }
}

/// How often each kind of request was answered, whatever the answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requests(pub BTreeMap<Request, u64>);

impl Requests {
    /// Reads `apiserver_request_total` out of the API server's `/metrics`.
    #[must_use]
    pub fn read(metrics: &str) -> Self {
        let mut counts = BTreeMap::new();
        for line in metrics.lines() {
            let Some((labels, value)) =
                line.strip_prefix("apiserver_request_total{").and_then(|rest| rest.rsplit_once("} "))
            else {
                continue;
            };
            let label = |name: &str| {
                labels.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'))
            };
            let (Some(verb), Some(resource)) = (label("verb"), label("resource")) else { continue };
            let resource = match label("subresource") {
                None | Some("") => resource.to_owned(),
                Some(sub) => format!("{resource}/{sub}"),
            };
            // Counters are floats on the wire and whole numbers in fact.
            let Ok(count) = value.trim().parse::<f64>() else { continue };
            *counts.entry(Request { verb: verb.to_owned(), resource }).or_insert(0) += count as u64;
        }
        Self(counts)
    }

    /// What came on top of `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let more = |(request, count): (&Request, &u64)| {
            let more = count.saturating_sub(earlier.0.get(request).copied().unwrap_or(0));
            (more > 0).then(|| (request.clone(), more))
        };
        Self(self.0.iter().filter_map(more).collect())
    }

    /// Of one kind.
    #[must_use]
    pub fn of(&self, verb: &str, resource: &str) -> u64 {
        self.0.get(&Request { verb: verb.into(), resource: resource.into() }).copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = r#"# TYPE apiserver_request_total counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 3
apiserver_request_total{code="409",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="POST",version="v1"} 1
apiserver_request_total{code="200",component="apiserver",dry_run="",group="g",resource="pools",scope="resource",subresource="status",verb="PATCH",version="v1alpha1"} 2
apiserver_request_total_other{verb="POST"} 9
"#;

    #[test]
    fn the_kubelet_s_writes_and_the_cluster_s_own_are_on_nobody_s_budget() {
        let write = |resource: &str| Request { verb: "PATCH".into(), resource: resource.into() };
        assert!(write("pods").is_for_claims() && write("pools/status").is_for_claims());
        assert!(!write("pods/status").is_for_claims() && !write("leases").is_for_claims());
        assert!(!Request { verb: "WATCH".into(), resource: "pods".into() }.is_for_claims());
    }

    #[test]
    fn requests_are_counted_by_verb_and_resource_whatever_the_answer() {
        let read = Requests::read(METRICS);
        assert_eq!(read.of("POST", "pods"), 4);
        assert_eq!(read.of("PATCH", "pools/status"), 2);
        assert_eq!(read.0.len(), 2);
    }

    #[test]
    fn only_what_came_on_top_counts() {
        let read = Requests::read(METRICS);
        assert_eq!(read.since(&read), Requests::default());
        assert_eq!(read.since(&Requests::default()), read);
    }
}
