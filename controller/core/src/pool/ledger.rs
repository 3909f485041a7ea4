//! The ledger as `Pool.status` spells it: grouped by claim, compact strings (1,000 grants as full objects cost seven times the
//! API server's time).

use sandbox_api::PoolGrant;
use sandbox_api::ledger::{GrantedPod, PodRef};

use crate::grant::{Grant, Ledger};
use crate::ids::{ClaimKey, PodKey};

/// Reads the ledger. An entry that cannot be read (edited by hand) is dropped: nothing can be done with it, and the Pods and
/// claims themselves still tell who holds whom.
pub(super) fn read(grants: &[PoolGrant], retiring: &[String]) -> Ledger<PodKey, ClaimKey> {
    let grants = grants.iter().filter_map(|grant| Some((ClaimKey::parse(&grant.claim)?, &grant.pods)));
    let grants = grants.flat_map(|(claim, pods)| {
        pods.iter().filter_map(move |entry| {
            let GrantedPod { index, pod } = entry.parse().ok()?;
            Some(Grant { claim: claim.clone(), index, pod: PodKey::from_ref(&pod) })
        })
    });
    let retiring = retiring.iter().filter_map(|pod| pod.parse::<PodRef>().ok());
    Ledger { grants: grants.collect(), retiring: retiring.map(|pod| PodKey::from_ref(&pod)).collect() }
}

/// Writes the ledger.
pub(super) fn write(ledger: &Ledger<PodKey, ClaimKey>) -> (Vec<PoolGrant>, Vec<String>) {
    let mut grants: Vec<PoolGrant> = Vec::new();
    let mut at = std::collections::BTreeMap::new();
    for Grant { claim, index, pod } in &ledger.grants {
        let group = *at.entry(claim.uid.clone()).or_insert_with(|| {
            grants.push(PoolGrant { claim: claim.address(), pods: Vec::new() });
            grants.len() - 1
        });
        if let Some(group) = grants.get_mut(group) {
            group.pods.push(GrantedPod { index: *index, pod: pod.to_ref() }.to_string());
        }
    }
    let retiring = ledger.retiring.iter().map(|pod| pod.to_ref().to_string()).collect();
    (grants, retiring)
}

#[cfg(test)]
mod tests {
    use super::{read, write};
    use sandbox_api::PoolGrant;

    #[test]
    fn a_ledger_is_read_as_it_was_written() {
        let written = vec![
            PoolGrant { claim: "BatchSandbox/a/u1".into(), pods: vec!["0:p-0/x".into(), "2:p-1/y".into()] },
            PoolGrant { claim: "Sandbox/b/u2".into(), pods: vec!["0:p-2/z".into()] },
        ];
        let retiring = vec!["p-3/w".to_owned()];
        assert_eq!(write(&read(&written, &retiring)), (written, retiring));
    }

    #[test]
    fn an_entry_edited_by_hand_does_not_stop_the_pool() {
        let broken = vec![
            PoolGrant { claim: "nonsense".into(), pods: vec!["x".into()] },
            PoolGrant { claim: "Sandbox/b/u".into(), pods: vec!["x:p/u".into()] },
        ];
        let ledger = read(&broken, &["nonsense".to_owned()]);
        assert!(ledger.grants.is_empty() && ledger.retiring.is_empty());
    }
}
