//! Names of children, chosen before the call that creates them: a create whose answer was lost is found again.

use std::borrow::Cow;

/// The longest name of a Pod and most other objects (DNS subdomain).
pub const NAME_MAX: usize = 253;
/// The longest name of a Job: it becomes a label of its Pods.
pub const JOB_NAME_MAX: usize = 63;

/// How many characters of a uid go into a name.
const UID_CHARS: usize = 5;

/// The Pod of a slot of a Pool: `<pool>-<5 characters of the Pool's uid>-<slot>`, `slot` in `0..poolMax`.
///
/// The name is what holds `poolMax`, whoever creates.
pub fn pool_pod(pool: &str, pool_uid: &str, slot: u32) -> String {
    join(pool, &format!("-{}-{slot}", uid_part(pool_uid)), NAME_MAX)
}

/// The slot that a Pod's name stands for, if it is one of this Pool's names.
pub fn pool_pod_slot(pod: &str, pool: &str, pool_uid: &str) -> Option<u32> {
    let (_, digits) = pod.rsplit_once('-')?;
    let slot = digits.parse().ok()?;
    (pool_pod(pool, pool_uid, slot) == pod).then_some(slot)
}

/// The ControllerRevision that owns the warm Pods of one revision: `<pool>-<5 characters of uid>-<revision>`.
pub fn pool_anchor(pool: &str, pool_uid: &str, revision: &str) -> String {
    join(pool, &format!("-{}-{revision}", uid_part(pool_uid)), NAME_MAX)
}

/// The Pod of an index of a BatchSandbox without a Pool: `<name>-<index>` (contract).
pub fn batch_sandbox_pod(batch_sandbox: &str, index: u32) -> String {
    join(batch_sandbox, &format!("-{index}"), NAME_MAX)
}

/// The Pod of a Sandbox without a Pool: `<name>-sbx`, which no name of a BatchSandbox's or Pool's Pod ends in.
pub fn sandbox_pod(sandbox: &str) -> String {
    join(sandbox, "-sbx", NAME_MAX)
}

/// The snapshot of a pause: `<name>-pause` (contract).
pub fn pause_snapshot(sandbox: &str) -> String {
    join(sandbox, "-pause", NAME_MAX)
}

/// The Job that commits a snapshot: `<snapshot>-commit` (contract).
pub fn commit_job(snapshot: &str) -> String {
    join(snapshot, "-commit", JOB_NAME_MAX)
}

/// The Job that unfreezes the containers of a failed snapshot: `<snapshot>-unpause` (contract).
pub fn unpause_job(snapshot: &str) -> String {
    join(snapshot, "-unpause", JOB_NAME_MAX)
}

/// `text` when it is at most `max` bytes, else its start and a hash of the whole: still unique, still a name.
pub(crate) fn fit(text: &str, max: usize) -> Cow<'_, str> {
    if text.len() <= max {
        return Cow::Borrowed(text);
    }
    let hash = format!("-{:08x}", fnv1a(text));
    let stem: String = text.chars().take(max.saturating_sub(hash.len())).collect();
    // A name must not have a dash or a dot before the dash of the hash turn into an empty DNS label.
    Cow::Owned(format!("{}{hash}", stem.trim_end_matches(['-', '.', '_'])))
}

fn join(stem: &str, suffix: &str, max: usize) -> String {
    format!("{}{suffix}", fit(stem, max.saturating_sub(suffix.len())))
}

fn uid_part(uid: &str) -> String {
    uid.chars().filter(char::is_ascii_alphanumeric).take(UID_CHARS).collect()
}

/// FNV-1a, folded to 32 bits: stable for ever, no dependency; uniqueness within a namespace is all it is for.
fn fnv1a(text: &str) -> u32 {
    let hash = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    ((hash >> 32) ^ (hash & 0xffff_ffff)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "7f3a1c2e-0000-4000-8000-000000000000";

    #[test]
    fn a_slot_is_read_back_from_its_pods_name() {
        assert_eq!(pool_pod("ci-pod", UID, 12), "ci-pod-7f3a1-12");
        assert_eq!(pool_pod_slot("ci-pod-7f3a1-12", "ci-pod", UID), Some(12));
        for other in ["ci-pod-7f3a1-012", "ci-pod-00000-12", "ci-pod-12", "ci-pod-7f3a1-x", "ci-pod", "ci-pod-7f3a1-+1"]
        {
            assert_eq!(pool_pod_slot(other, "ci-pod", UID), None, "{other}");
        }
    }

    #[test]
    fn contract_names_are_the_contracts() {
        assert_eq!(batch_sandbox_pod("b", 3), "b-3");
        assert_eq!(pause_snapshot("b"), "b-pause");
        assert_eq!(commit_job("b-pause"), "b-pause-commit");
        assert_eq!(unpause_job("b-pause"), "b-pause-unpause");
    }

    #[test]
    fn a_long_name_stays_a_name_and_stays_unique() {
        let (one, two) = (format!("{}.a", "x".repeat(251)), format!("{}.b", "x".repeat(251)));
        let (first, second) = (pool_pod(&one, UID, 1), pool_pod(&two, UID, 1));
        assert!(first.len() <= NAME_MAX);
        assert_ne!(first, second);
        assert_eq!(pool_pod_slot(&first, &one, UID), Some(1));
        assert!(commit_job(&one).len() <= JOB_NAME_MAX);
        let dotted = format!("{}.{}", "a".repeat(43), "b".repeat(200));
        assert!(!commit_job(&dotted).contains(".-"), "{}", commit_job(&dotted));
        assert!(crate::labels::value(&one).len() <= crate::labels::VALUE_MAX);
        assert_eq!(crate::labels::value("short"), "short");
    }
}
