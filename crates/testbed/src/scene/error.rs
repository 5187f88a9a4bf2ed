//! Errors of a scene.

use crate::gateway::GatewayError;
use crate::link::LinkError;
use crate::namespace::HostError;

/// Why a scene could not be built, or its gateways could not be run.
#[derive(Debug, thiserror::Error)]
pub enum SceneError {
    /// A host could not be made or changed.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The emulated link could not be made.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// A gateway could not be set up or run.
    #[error(transparent)]
    Gateway(#[from] GatewayError),
    /// A second link between the gateways, of which the first is not emulated.
    #[error(
        "the link between the gateways is not emulated: there is no thread that could serve a second one"
    )]
    NotEmulated,
}
