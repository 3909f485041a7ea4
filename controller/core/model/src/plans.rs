//! Plans, remembered: a plan is a function of what one process knows, and far fewer of that are different than states are.

use std::collections::HashMap;
use std::sync::Arc;

use crate::plan::{Move, moves};
use crate::prints::Fast;
use crate::state::{Flight, Leader};
use crate::worlds::Cx;

/// Plans by what was known.
#[derive(Default)]
pub struct Plans {
    known: HashMap<Leader, Arc<[Move]>, Fast>,
    asked: u64,
}

impl Plans {
    /// The plan of a process.
    pub fn of(&mut self, leader: &Leader, cx: &Cx) -> Arc<[Move]> {
        self.asked += 1;
        // Of the request under way a plan sees only which object it holds.
        let Flight { kind, target, stage, orphan, .. } = leader.flight;
        let key = Leader { flight: Flight { kind, target, stage, orphan, ..Flight::default() }, ..*leader };
        if let Some(plan) = self.known.get(&key) {
            return Arc::clone(plan);
        }
        let plan: Arc<[Move]> = moves(&key, cx).into();
        self.known.insert(key, Arc::clone(&plan));
        plan
    }

    /// How often the production code was run, and how often it was asked.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        (self.known.len() as u64, self.asked)
    }
}
