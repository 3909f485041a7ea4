//! What was asked of the API server between two moments, by its own counters.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::Result;
use sandbox_e2e::requests::Requests;

use crate::process;

/// The flow schema that the operator's requests are counted by.
pub const OPERATOR_FLOWS: &str = "bench-operator";

/// All counters at one moment.
#[derive(Clone)]
pub struct Snapshot {
    requests: Requests,
    /// The operator's, whatever they ask, by the API server's count.
    by_operator: u64,
    /// The operator's by verb and kind, by its own count.
    own: BTreeMap<String, u64>,
    processor: Duration,
}

/// What lies between two moments.
pub struct Cost {
    /// Requests by kind, by everybody.
    pub requests: Requests,
    /// Requests of the operator, watches and lease renewals included.
    pub by_operator: u64,
    /// The same by verb and kind, as the operator itself counts.
    pub own: BTreeMap<String, u64>,
    /// Processor time of the operator.
    pub processor: Duration,
}

impl Snapshot {
    /// Out of the metrics of API server and operator, and the operator's process.
    ///
    /// # Errors
    /// When the process is gone.
    pub fn read(api_server: &str, operator: &str, pid: i32) -> Result<Self> {
        Ok(Self {
            requests: Requests::read(api_server),
            by_operator: dispatched(api_server),
            own: own(operator),
            processor: process::processor_time(pid)?,
        })
    }

    /// What came since.
    pub fn until(&self, later: &Self) -> Cost {
        let more = |(name, count): (&String, &u64)| {
            let more = count - self.own.get(name).copied().unwrap_or(0).min(*count);
            (more > 0).then(|| (name.clone(), more))
        };
        Cost {
            requests: later.requests.since(&self.requests),
            by_operator: later.by_operator.saturating_sub(self.by_operator),
            own: later.own.iter().filter_map(more).collect(),
            processor: later.processor.saturating_sub(self.processor),
        }
    }
}

impl Cost {
    /// Writes that claims cost: the client's own, the operator's and the garbage collector's, but not the kubelet's.
    pub fn writes(&self) -> u64 {
        self.requests.0.iter().filter(|(request, _)| request.is_for_claims()).map(|(_, count)| count).sum()
    }

    /// Reads of the operator: lists and gets, by its own count.
    pub fn reads(&self) -> u64 {
        let is_read = |name: &str| name.starts_with("get ") || name.starts_with("list ");
        self.own.iter().filter(|(name, _)| is_read(name)).map(|(_, count)| count).sum()
    }

    /// The writes by kind, for so many claims.
    pub fn each(&self, claims: usize) -> String {
        let counted = self.requests.0.iter().filter(|(request, _)| request.is_for_claims());
        let parts: Vec<String> =
            counted.map(|(request, count)| format!("{request} {:.2}", *count as f64 / claims.max(1) as f64)).collect();
        parts.join(", ")
    }

    /// The operator's requests by verb and kind.
    pub fn of_operator(&self) -> String {
        let parts: Vec<String> = self.own.iter().map(|(name, count)| format!("{name} {count}")).collect();
        parts.join(", ")
    }
}

fn dispatched(metrics: &str) -> u64 {
    let name = "apiserver_flowcontrol_dispatched_requests_total{";
    let ours = metrics.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once("} "));
    let ours = ours.filter(|(labels, _)| labels.contains(&format!("flow_schema=\"{OPERATOR_FLOWS}\"")));
    ours.filter_map(|(_, value)| value.trim().parse::<f64>().ok()).map(|value| value as u64).sum()
}

fn own(metrics: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let name = "opensandbox_controller_requests_total{";
    for (labels, value) in metrics.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once("} ")) {
        let label = |name: &str| {
            labels.split(',').find_map(|pair| pair.strip_prefix(name)?.strip_prefix("=\"")?.strip_suffix('"'))
        };
        let (Some(verb), Some(kind), Ok(value)) = (label("verb"), label("kind"), value.trim().parse::<f64>()) else {
            continue;
        };
        *counts.entry(format!("{verb} {kind}")).or_insert(0) += value as u64;
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_operator_s_flows_count_as_its_requests() {
        let metrics = "apiserver_flowcontrol_dispatched_requests_total{flow_schema=\"bench-operator\",priority_level=\"workload-low\"} 7\n\
                       apiserver_flowcontrol_dispatched_requests_total{flow_schema=\"service-accounts\",priority_level=\"workload-low\"} 9\n";
        assert_eq!(dispatched(metrics), 7);
    }

    #[test]
    fn the_operator_s_own_count_is_by_verb_and_kind_whatever_the_code() {
        let metrics = "opensandbox_controller_requests_total{code=\"200\",kind=\"pods\",verb=\"patch\"} 2\n\
                       opensandbox_controller_requests_total{code=\"409\",kind=\"pods\",verb=\"patch\"} 1\n";
        assert_eq!(own(metrics), BTreeMap::from([("patch pods".to_owned(), 3)]));
    }
}
