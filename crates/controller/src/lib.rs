//! Many sites as one document: a network, the trunks that are to have a guaranteed rate, and the [`Plan`] of those that it can carry.
//!
//! [`Document`] is read strictly, as all of our files are. [`plan`] asks crate `admission` which trunks are carried and on which ways,
//! beginning with those that an earlier plan carries, and says it in the document's names. A plan is written and read as JSON: it is what
//! the next one begins with.
//!
//! A [`Store`] keeps revisions of documents, the sites that have enrolled, and tokens. [`server`] is the process that gateways ask for their
//! configurations; crate `sites` has what they say to each other.

mod changes;
mod configuration;
mod document;
mod plan;
pub mod server;
mod store;
mod text;

pub use changes::changes;
pub use configuration::{Configurations, configurations};
pub use document::{Document, json_schema_text};
pub use plan::{
    Both, Change, PLAN_VERSION, Plan, PlanError, PlannedLink, PlannedTrunk, Refused, Resource, Short, plan,
};
pub use store::{
    Author, DatabaseUrl, Entry, Event, Holder, Member, Place, Proposal, Revision, Role, Rollout, Steps,
    Store, StoreError,
};
