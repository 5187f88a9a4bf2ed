//! Who asks: by the token in a request's head.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{StatusCode, header};

use super::App;
use super::refusal::Refusal;
use crate::store::{Holder, Role};

/// Somebody who may look.
pub(super) struct Viewer;

/// Somebody who may change things: their name.
pub(super) struct Admin(pub(super) String);

/// A site.
pub(super) struct Gateway(pub(super) String);

fn holder(app: &App, parts: &Parts) -> Result<Holder, Refusal> {
    let header = parts.headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = header.and_then(|value| value.strip_prefix("Bearer ")).map(str::trim);
    let fleet = app.fleet();
    token.and_then(|token| fleet.holder(token)).ok_or_else(Refusal::unknown)
}

fn forbidden(needed: &str) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, format!("this token does not allow it; allowed: {needed}"))
}

impl FromRequestParts<Arc<App>> for Viewer {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        match holder(app, parts)? {
            Holder::Person { .. } => Ok(Viewer),
            Holder::Site(_) => Err(forbidden("the token of a viewer or an admin")),
        }
    }
}

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        match holder(app, parts)? {
            Holder::Person { name, role: Role::Admin } => Ok(Admin(name)),
            _ => Err(forbidden("the token of an admin")),
        }
    }
}

impl FromRequestParts<Arc<App>> for Gateway {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        match holder(app, parts)? {
            Holder::Site(site) => Ok(Gateway(site)),
            Holder::Person { .. } => Err(forbidden("the token that a site got when it enrolled")),
        }
    }
}
