//! Which request goes first.
//!
//! kube speaks HTTP/1.1, so a request in flight is a connection, and there is
//! a bound on them. Deliveries go ahead of adoptions ahead of refill; the
//! lower lanes keep a share that deliveries cannot take, so that a burst
//! delays them and never starves them.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Priority of a request, first to last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// A person or program waits for it: commits, claim status, deadlines.
    Delivery,
    /// Pods follow their claims.
    Adoption,
    /// Pods are made and removed.
    Refill,
}

const LANES: usize = 3;

impl Lane {
    fn index(self) -> usize {
        match self {
            Self::Delivery => 0,
            Self::Adoption => 1,
            Self::Refill => 2,
        }
    }
}

/// Permits by lane. Clones share them.
#[derive(Clone)]
pub struct Lanes {
    state: Arc<Mutex<State>>,
}

struct State {
    free: usize,
    used: [usize; LANES],
    most: [usize; LANES],
    waiting: [VecDeque<oneshot::Sender<Permit>>; LANES],
}

/// The right to have one request in flight; given back when dropped.
pub struct Permit {
    lanes: Option<Lanes>,
    lane: Lane,
}

impl Lanes {
    /// `total` requests at once, at least 8.
    #[must_use]
    pub fn new(total: usize) -> Self {
        let total = total.max(8);
        let state = State {
            free: total,
            used: [0; LANES],
            most: [total - total / 8, total - total / 4, total / 2],
            waiting: std::array::from_fn(|_| VecDeque::new()),
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Waits for a permit.
    pub async fn enter(&self, lane: Lane) -> Permit {
        loop {
            let waiting = {
                let mut state = self.lock();
                if state.has_room(lane) && state.waiting[lane.index()].is_empty() {
                    state.begin(lane);
                    return self.permit(lane);
                }
                let (sender, receiver) = oneshot::channel();
                state.waiting[lane.index()].push_back(sender);
                receiver
            };
            if let Ok(permit) = waiting.await {
                return permit;
            }
        }
    }

    fn permit(&self, lane: Lane) -> Permit {
        Permit { lanes: Some(self.clone()), lane }
    }

    fn leave(&self, lane: Lane) {
        self.lock().end(lane);
        self.pass_on();
    }

    /// Gives freed permits to whoever waits, first lane first. A waiter that
    /// went away drops its permit, which comes back here.
    fn pass_on(&self) {
        loop {
            let (sender, lane) = {
                let mut state = self.lock();
                let lanes = [Lane::Delivery, Lane::Adoption, Lane::Refill];
                let Some(lane) = lanes.into_iter().find(|l| state.has_room(*l) && !state.waiting[l.index()].is_empty())
                else {
                    return;
                };
                let Some(sender) = state.waiting[lane.index()].pop_front() else { return };
                state.begin(lane);
                (sender, lane)
            };
            // The refused permit ends here without passing on: this loop does.
            if let Err(mut refused) = sender.send(self.permit(lane)) {
                refused.lanes = None;
                self.lock().end(lane);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn has_room(&self, lane: Lane) -> bool {
        self.free > 0 && self.used[lane.index()] < self.most[lane.index()]
    }

    fn begin(&mut self, lane: Lane) {
        self.free -= 1;
        self.used[lane.index()] += 1;
    }

    fn end(&mut self, lane: Lane) {
        self.free += 1;
        self.used[lane.index()] -= 1;
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some(lanes) = &self.lanes {
            lanes.leave(self.lane);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic)]
mod tests {
    use super::*;

    async fn waits(lanes: &Lanes, lane: Lane) -> tokio::task::JoinHandle<Permit> {
        let lanes = lanes.clone();
        let handle = tokio::spawn(async move { lanes.enter(lane).await });
        tokio::task::yield_now().await;
        handle
    }

    #[tokio::test]
    async fn a_delivery_goes_ahead_of_refill_that_waited_longer() {
        let lanes = Lanes::new(8);
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(lanes.enter(Lane::Refill).await);
        }
        for _ in 0..4 {
            held.push(lanes.enter(Lane::Delivery).await);
        }
        let refill = waits(&lanes, Lane::Refill).await;
        let delivery = waits(&lanes, Lane::Delivery).await;
        held.remove(0);
        let permit = delivery.await.unwrap();
        assert!(!refill.is_finished());
        drop(permit);
        refill.await.unwrap();
    }

    #[tokio::test]
    async fn deliveries_leave_room_for_the_others() {
        let lanes = Lanes::new(8);
        let mut held = Vec::new();
        for _ in 0..7 {
            held.push(lanes.enter(Lane::Delivery).await);
        }
        let eighth = waits(&lanes, Lane::Delivery).await;
        let _refill = lanes.enter(Lane::Refill).await;
        assert!(!eighth.is_finished());
    }

    #[tokio::test]
    async fn a_waiter_that_gave_up_takes_no_permit_along() {
        let lanes = Lanes::new(8);
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(lanes.enter(Lane::Refill).await);
        }
        let gone = waits(&lanes, Lane::Refill).await;
        gone.abort();
        let _ = gone.await;
        drop(held);
        for _ in 0..4 {
            lanes.enter(Lane::Refill).await;
        }
        assert_eq!(lanes.lock().free, 8);
    }
}
