//! What requests say, and refusals of what cannot be read that are JSON as all others are.

use axum::Json;
use axum::extract::rejection::{JsonRejection, QueryRejection, StringRejection};
use axum::extract::{FromRequest, FromRequestParts, Query, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;

use super::refusal::Refusal;

/// The parameters of a URL.
pub(super) struct Parameters<T>(pub(super) T);

/// A body of JSON.
pub(super) struct Content<T>(pub(super) T);

/// A body of text.
pub(super) struct Text(pub(super) String);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Parameters<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        let Query(said) = Query::from_request_parts(parts, state).await?;
        Ok(Parameters(said))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Content<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        let Json(said) = Json::from_request(request, state).await?;
        Ok(Content(said))
    }
}

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        Ok(Text(String::from_request(request, state).await?))
    }
}

impl From<QueryRejection> for Refusal {
    fn from(rejection: QueryRejection) -> Self {
        Refusal::new(rejection.status(), rejection.body_text())
    }
}

impl From<JsonRejection> for Refusal {
    fn from(rejection: JsonRejection) -> Self {
        Refusal::new(rejection.status(), rejection.body_text())
    }
}

impl From<StringRejection> for Refusal {
    fn from(rejection: StringRejection) -> Self {
        Refusal::new(rejection.status(), rejection.body_text())
    }
}
