//! One module for each group of commands.

pub(crate) mod check;
pub(crate) mod control;
pub(crate) mod controller;
pub(crate) mod doctor;
mod extra;
pub(crate) mod generate;
pub(crate) mod hooks;
pub(crate) mod join;
pub(crate) mod keys;
#[cfg(feature = "laboratory")]
pub(crate) mod laboratory;
mod manual;
mod proxies;
pub(crate) mod proxy;
mod rates;
mod reference;
pub(crate) mod site;
mod site_file;
pub(crate) mod status;
pub(crate) mod top;
pub(crate) mod unblock;
mod view;
#[cfg(feature = "web")]
pub(crate) mod web;
