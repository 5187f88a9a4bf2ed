//! Answers to requests that are refused.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::plan::Plan;
use crate::store::StoreError;

/// Why something was refused.
#[derive(Debug, Clone, Default, Serialize, ToSchema)]
pub(super) struct Problem {
    /// In words.
    pub(super) error: String,
    /// What others have changed since the revision that a document was made from.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) changed: Vec<String>,
    /// The plan, of which trunks are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub(super) plan: Option<Box<Plan>>,
}

/// Why a request is refused: a status, and words.
#[derive(Debug)]
pub(super) struct Refusal {
    status: StatusCode,
    problem: Problem,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, error: impl Into<String>) -> Self {
        Refusal { status, problem: Problem { error: error.into(), ..Problem::default() } }
    }

    /// Nobody, or somebody unknown, asks.
    pub(super) fn unknown() -> Self {
        let allowed = "allowed: Authorization: Bearer TOKEN, with what `trunkline controller token` prints";
        Refusal::new(StatusCode::UNAUTHORIZED, format!("no token that is known; {allowed}"))
    }

    /// A mistake of ours.
    pub(super) fn broken() -> Self {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "the request was not completed")
    }
}

impl From<StoreError> for Refusal {
    fn from(error: StoreError) -> Self {
        let text = error.to_string();
        let status = match &error {
            StoreError::Document(_) | StoreError::Refused(_) => StatusCode::UNPROCESSABLE_ENTITY,
            StoreError::Conflict { .. }
            | StoreError::Same(_)
            | StoreError::RollsOut(_)
            | StoreError::NoRollout
            | StoreError::KnownKey(_)
            | StoreError::There { .. } => StatusCode::CONFLICT,
            StoreError::NoRevision { .. } | StoreError::Unknown { .. } => StatusCode::NOT_FOUND,
            StoreError::Invitation(_) => StatusCode::FORBIDDEN,
            StoreError::Busy(_) | StoreError::Away { .. } | StoreError::Follows(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            StoreError::Missing(_)
            | StoreError::Foreign(_)
            | StoreError::Newer { .. }
            | StoreError::Database { .. }
            | StoreError::Plan { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        };
        let mut refusal = Refusal::new(status, text);
        match error {
            StoreError::Conflict { changed, .. } => refusal.problem.changed = changed,
            StoreError::Refused(plan) => refusal.problem.plan = Some(plan),
            _ => {}
        }
        refusal
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = (self.status, Json(self.problem)).into_response();
        if self.status == StatusCode::UNAUTHORIZED {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
