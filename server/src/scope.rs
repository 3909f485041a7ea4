//! What a caller may see and do: the one thing that every lifecycle route needs and cannot make up.
//!
//! A [`Scope`] comes only out of authentication. Everything that reads or writes takes one, and
//! [`crate::routes::Scoped`] refuses at compile time to mount a handler that does not begin with it.

use crate::view::View;

/// A caller who was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    namespace: String,
}

impl Scope {
    /// The scope of the one key: everything in the server's namespace.
    pub(crate) fn of_namespace(namespace: &str) -> Self {
        Self { namespace: namespace.to_owned() }
    }

    /// The namespace that this caller's sandboxes are in.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Whether this caller may know of a sandbox. Foreign ones are told to be missing.
    #[must_use]
    pub fn sees(&self, view: &View) -> bool {
        !view.id.is_empty() && view.namespace == self.namespace
    }
}
