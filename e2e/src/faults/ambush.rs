//! Lying in wait for one request, to stop its sender at exactly that point.

use anyhow::{Context, Result};
use tokio::sync::oneshot;

use super::asked::Asked;

/// At which moment of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the API server hears of it.
    Before,
    /// After it took effect, before its sender hears of that.
    After,
}

/// The request that was waited for.
#[derive(Clone, Debug)]
pub struct Caught {
    /// The request.
    pub asked: Asked,
}

pub(super) struct Ambush {
    pub wanted: Box<dyn Fn(&Asked) -> bool + Send>,
    /// How many more it takes, this one included.
    pub left: u32,
    pub moment: Moment,
    pub tell: oneshot::Sender<Caught>,
}

impl Ambush {
    /// Counts a request; true if it is the one.
    pub fn counts(&mut self, asked: &Asked, moment: Moment) -> bool {
        if self.moment == moment && (self.wanted)(asked) {
            self.left = self.left.saturating_sub(1);
            return self.left == 0;
        }
        false
    }
}

/// The waiting side.
pub struct Waiting(pub(super) oneshot::Receiver<Caught>);

impl Waiting {
    /// Waits until the request has come. From that moment on nothing passes the proxy, either way, until it is healed:
    /// its client can be killed where it stands.
    ///
    /// # Errors
    /// When the proxy is healed or ends before.
    pub async fn caught(self) -> Result<Caught> {
        self.0.await.context("the request that was waited for never came")
    }
}
