//! Named Pods that died: step 10 of the grant protocol, and its twin for Pods from a template.

use sandbox_api::{Recovery, SandboxSlot};

use super::{Action, Observed, Plan, SeenPod, Source};
use crate::failure::{Failure, death};
use crate::ids::PodKey;

/// What became of the slots of a claim.
pub(super) struct Slots {
    /// As they should be written.
    pub slots: Vec<SandboxSlot>,
    /// Why the last lost one was lost, if any was lost now.
    pub loss: Option<Failure>,
}

/// Brings each named slot up to date with its Pod: address and readiness of one that is seen, loss of one that is proven
/// dead. A Pod that is merely not seen stays named, and is asked for.
pub(super) fn follow(seen: &Observed, plan: &mut Plan) -> Slots {
    let mut loss = None;
    let slots = seen.claim.status.slots.iter().take(seen.claim.replicas as usize);
    let slots = slots.map(|slot| match slot {
        SandboxSlot::Named { name, uid, .. } => {
            let pod = PodKey::new(uid, name);
            match fate(seen, &pod) {
                Fate::Alive(slot) => slot,
                Fate::Unseen => {
                    plan.actions.push(Action::ProvePod(pod));
                    slot.clone()
                }
                Fate::Dead(why) => {
                    loss = Some(why);
                    after_death(seen, uid)
                }
            }
        }
        SandboxSlot::Open | SandboxSlot::Lost { .. } | SandboxSlot::Undelivered { .. } => slot.clone(),
    });
    Slots { slots: slots.collect(), loss }
}

enum Fate {
    Alive(SandboxSlot),
    Unseen,
    Dead(Failure),
}

fn fate(seen: &Observed, key: &PodKey) -> Fate {
    if seen.gone.contains(&key.uid) {
        let last = seen.pods.get(key).map(|seen| &*seen.pod);
        return Fate::Dead(death(&key.name, last));
    }
    let Some(SeenPod { pod, .. }) = seen.pods.get(key) else { return Fate::Unseen };
    if pod.is_terminating() || (pod.is_terminal() && !is_own(seen)) {
        return Fate::Dead(death(&key.name, Some(pod)));
    }
    Fate::Alive(named(pod))
}

/// Whether the Pods come from the claim's own template: one that ended by itself then keeps its slot (the contract: it is
/// not replaced, its end is the claim's failure).
fn is_own(seen: &Observed) -> bool {
    matches!(seen.claim.source, Source::Template(_))
}

/// A Pod of the claim's own that is replaced under the same name leaves its slot open; any other loss is recorded by uid.
fn after_death(seen: &Observed, uid: &str) -> SandboxSlot {
    match seen.claim.recovery {
        Recovery::Replace if is_own(seen) => SandboxSlot::Open,
        Recovery::Replace | Recovery::Fail | Recovery::Other(_) => SandboxSlot::Lost { uid: uid.to_owned() },
    }
}

/// The slot of a Pod that is there.
pub(super) fn named(pod: &crate::pod::Pod) -> SandboxSlot {
    let key = pod.key();
    SandboxSlot::Named {
        name: key.name.to_string(),
        uid: key.uid.to_string(),
        ip: pod.ip().map(str::to_owned),
        ready: pod.is_ready(),
    }
}

/// The slots of a claim after a promised Pod died before it was delivered (step 6). Nobody ever had it: the index stays open,
/// whatever the claim's `recovery`.
#[must_use]
pub fn with_undelivered(slots: Vec<SandboxSlot>, index: u32, pod: &PodKey) -> Vec<SandboxSlot> {
    with_slot(slots, index, SandboxSlot::Undelivered { uid: pod.uid.to_string() })
}

/// The slots of a claim once a Pod of a Pool is delivered to it (step 2). One that the store does not show is delivered all
/// the same: its address follows.
#[must_use]
pub fn with_named(
    slots: Vec<SandboxSlot>,
    index: u32,
    key: &PodKey,
    pod: Option<&crate::pod::Pod>,
) -> Vec<SandboxSlot> {
    let unseen = || SandboxSlot::Named { name: key.name.to_string(), uid: key.uid.to_string(), ip: None, ready: false };
    with_slot(slots, index, pod.map_or_else(unseen, named))
}

/// The slots with one of them set; indexes in between that were never written are open.
fn with_slot(mut slots: Vec<SandboxSlot>, index: u32, slot: SandboxSlot) -> Vec<SandboxSlot> {
    let at = index as usize;
    if slots.len() <= at {
        slots.resize(at + 1, SandboxSlot::Open);
    }
    if let Some(place) = slots.get_mut(at) {
        *place = slot;
    }
    slots
}
