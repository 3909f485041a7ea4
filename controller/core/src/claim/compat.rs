//! The annotations of the contract that report what the status already says, for readers of the older operator's objects.

use std::collections::BTreeMap;

use sandbox_api::SandboxSlot;
use sandbox_api::annotations::{ALLOC_STATUS, AllocStatus, ENDPOINTS};
use sandbox_api::ledger::ClaimKind;

use super::{Claim, Report};

/// The annotations of a BatchSandbox with this status: `endpoints` (the Pods' addresses by index) and, for one on a Pool,
/// `alloc-status` (their names). A report only: nothing is ever read back from them. Empty for other kinds, and while no Pod
/// is named.
#[must_use]
pub fn compat(claim: &Claim, report: &Report) -> BTreeMap<&'static str, String> {
    let named = report.slots.iter().any(|slot| slot.named_uid().is_some());
    if claim.key.kind != ClaimKind::BatchSandbox || !named {
        return BTreeMap::new();
    }
    let text = |of: fn(&SandboxSlot) -> &str| report.slots.iter().map(of).collect::<Vec<_>>();
    let mut out = BTreeMap::from([(ENDPOINTS, serde_json::json!(text(address)).to_string())]);
    if let Some(pool) = claim.pool() {
        let pods = text(name).into_iter().map(str::to_owned).collect();
        let status = AllocStatus { pods, pool_ref: Some(pool.to_owned()), generation: Some(claim.generation) };
        out.insert(ALLOC_STATUS, serde_json::json!(status).to_string());
    }
    out
}

fn address(slot: &SandboxSlot) -> &str {
    match slot {
        SandboxSlot::Named { ip, .. } => ip.as_deref().unwrap_or_default(),
        SandboxSlot::Open | SandboxSlot::Lost { .. } | SandboxSlot::Undelivered { .. } => "",
    }
}

fn name(slot: &SandboxSlot) -> &str {
    match slot {
        SandboxSlot::Named { name, .. } => name,
        SandboxSlot::Open | SandboxSlot::Lost { .. } | SandboxSlot::Undelivered { .. } => "",
    }
}
