//! Many sites as one document: a network, the trunks that are to have a guaranteed rate, and the [`Plan`] of those that it can carry.
//!
//! [`Document`] is read strictly, as all of our files are. [`plan`] asks crate `admission` which trunks are carried and on which ways,
//! beginning with those that an earlier plan carries, and says it in the document's names. A plan is written and read as JSON: it is what
//! the next one begins with.

mod changes;
mod document;
mod plan;
mod store;
mod text;

pub use changes::changes;
pub use document::{Document, json_schema_text};
pub use plan::{
    Both, Change, PLAN_VERSION, Plan, PlanError, PlannedLink, PlannedTrunk, Refused, Resource, Short, plan,
};
pub use store::{Proposal, Revision, Store, StoreError};
