//! Scenarios on a whole node. Being written.
