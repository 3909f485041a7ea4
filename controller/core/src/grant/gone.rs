//! What is left to know of something that is proven gone. It stays so for ever, so it counts as confirmed.

use super::{ClaimLife, ClaimView, PodLife, PodView};

impl<C> PodView<C> {
    /// A Pod that a live read proved gone.
    #[must_use]
    pub fn gone() -> Self {
        Self {
            life: PodLife::Gone,
            warm: false,
            held_by: None,
            owned: false,
            grantable: false,
            rank: 0,
            confirmed: true,
            busy: false,
        }
    }
}

impl<P> ClaimView<P> {
    /// A claim that a live read proved gone.
    #[must_use]
    pub fn gone() -> Self {
        Self {
            life: ClaimLife::Gone,
            asks: false,
            can_be_met: false,
            replaces_lost: false,
            replicas: 0,
            slots: Vec::new(),
            rank: 0,
            confirmed: true,
            busy: false,
        }
    }
}
