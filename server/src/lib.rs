//! The lifecycle API over HTTP: validate, write one custom resource, wait on the watch cache, answer.
//!
//! This crate keeps no state of its own and never writes a Pod; any number of replicas may run.

pub mod app;
pub mod auth;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod connections;
pub mod create;
pub mod endpoint;
pub mod error;
pub mod fields;
pub mod layers;
pub mod leftover;
pub mod metrics;
pub mod routes;
pub mod run;
pub mod scope;
pub mod store;
pub mod template;
pub mod view;
pub mod wait;
pub mod wire;
pub mod words;
