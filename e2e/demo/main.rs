//! From a fresh machine to a running sandbox. Being written.

fn main() {}
