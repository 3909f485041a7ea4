//! Live reads, taken into the stores.

use kube::Resource;
use sandbox_api::ledger::ClaimKind;
use sandbox_core::ids::ClaimKey;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::apply::calls::{Answer, Failure};
use crate::context::Context;
use crate::lanes::Lane;
use crate::store::kinds::PodRecord;
use crate::store::{Kept, Key, Seq, Source, Store};

/// What a live read of a uid showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Read {
    /// It exists and its newest version is in the store.
    Alive {
        /// [`crate::store::Arrivals::now`] when the read was sent.
        sent: Seq,
    },
    /// It is gone; that is proven and noted.
    Gone,
    /// No answer.
    Unknown,
}

impl Context {
    /// Live GET of the object with this name, asked whether it is still the
    /// one with this uid.
    pub async fn read<K>(&self, lane: Lane, store: &Store<K>, key: &Key, uid: &str) -> Read
    where
        K: Kept + Resource<DynamicType = ()> + DeserializeOwned,
    {
        let answer = self.calls.get::<K>(lane, key).await;
        let sent = answer.sent;
        match answer.outcome {
            Ok(object) => {
                let same = object.meta().uid.as_deref() == Some(uid);
                store.take(object, Source::Answer { sent });
                if same { Read::Alive { sent } } else { self.proven_gone(store, uid) }
            }
            Err(Failure::NotFound) => self.proven_gone(store, uid),
            Err(Failure::NotLeading | Failure::Conflict | Failure::AlreadyExists | Failure::Unknown { .. }) => {
                Read::Unknown
            }
            Err(error @ Failure::Refused { .. }) => {
                tracing::warn!(kind = %K::plural(&()), object = %key, %error, "a live read was refused");
                Read::Unknown
            }
        }
    }

    fn proven_gone<K: Kept>(&self, store: &Store<K>, uid: &str) -> Read {
        self.proofs.gone(uid);
        store.proven_gone(uid);
        Read::Gone
    }

    /// Live GET of a claim. One of which only the uid is known is looked for
    /// among all claims of its namespace.
    pub async fn read_claim(&self, lane: Lane, namespace: &str, claim: &ClaimKey) -> Read {
        if claim.name.is_empty() {
            return self.find_claim(lane, namespace, &claim.uid).await;
        }
        let key = Key::new(namespace, &*claim.name);
        match claim.kind {
            ClaimKind::BatchSandbox => self.read(lane, &self.batches, &key, &claim.uid).await,
            ClaimKind::Sandbox => self.read(lane, &self.singles, &key, &claim.uid).await,
        }
    }

    async fn find_claim(&self, lane: Lane, namespace: &str, uid: &str) -> Read {
        let sent = self.calls.now();
        if !self.list_claims(lane, namespace).await {
            return Read::Unknown;
        }
        if self.claim_by_uid(uid).is_some() {
            return Read::Alive { sent };
        }
        self.proofs.gone(uid);
        Read::Gone
    }

    /// Takes the answer to the deletion of a Pod: the Pod while it ends, or a
    /// bare success, of which the watch tells.
    pub fn took_end(&self, answer: Value, sent: Seq) {
        if answer["kind"] == "Pod"
            && let Ok(record) = serde_json::from_value::<PodRecord>(answer)
        {
            self.pods.take(record, Source::Deletion { sent });
        }
    }

    /// Live LIST of the claims of a namespace into the stores. False if there
    /// was no answer.
    pub async fn list_claims(&self, lane: Lane, namespace: &str) -> bool {
        self.list_into(lane, namespace, None, &self.batches).await
            && self.list_into(lane, namespace, None, &self.singles).await
    }

    /// Live LIST into a store. False if there was no answer.
    pub async fn list_into<K>(&self, lane: Lane, namespace: &str, labels: Option<&str>, store: &Store<K>) -> bool
    where
        K: Kept + Resource<DynamicType = ()> + DeserializeOwned + Clone,
    {
        let Answer { sent, outcome } = self.calls.list::<K>(lane, namespace, labels).await;
        match outcome {
            Ok(objects) => {
                for object in objects {
                    store.take(object, Source::Answer { sent });
                }
                true
            }
            Err(error) => {
                tracing::warn!(kind = %K::plural(&()), %namespace, %error, "a live list failed");
                false
            }
        }
    }
}
