//! Who asks: by the token in a request's head.

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{Method, StatusCode};
use trunkline_pages::Secret;

use super::App;
use super::refusal::Refusal;
use crate::store::{Holder, Role};

/// Somebody who may look.
pub(super) struct Viewer;

/// Somebody who may change things: their name.
pub(super) struct Admin(pub(super) String);

/// A site.
pub(super) struct Gateway(pub(super) String);

fn holder(app: &App, token: Option<Secret>) -> Result<Holder, Refusal> {
    let token = token.and_then(|secret| String::from_utf8(secret.bytes).ok());
    token.and_then(|token| app.fleet().holder(token.trim())).ok_or_else(Refusal::unknown)
}

/// Of a request that may change something. A browser adds a password by itself, also to a form of somebody else's page: it counts only where
/// nothing is changed.
fn bearer(parts: &Parts) -> Option<Secret> {
    Secret::of(&parts.headers).filter(|secret| !secret.is_password)
}

fn forbidden(needed: &str) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, format!("this token does not allow it; allowed: {needed}"))
}

impl FromRequestParts<Arc<App>> for Viewer {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        // A page asks by its browser's password.
        let reads = parts.method == Method::GET || parts.method == Method::HEAD;
        let secret = if reads { Secret::of(&parts.headers) } else { bearer(parts) };
        match holder(app, secret)? {
            Holder::Person { .. } => Ok(Viewer),
            Holder::Site(_) => Err(forbidden("the token of a viewer or an admin")),
        }
    }
}

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        match holder(app, bearer(parts))? {
            Holder::Person { name, role: Role::Admin } => Ok(Admin(name)),
            _ => Err(forbidden("the token of an admin")),
        }
    }
}

impl FromRequestParts<Arc<App>> for Gateway {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Refusal> {
        match holder(app, bearer(parts))? {
            Holder::Site(site) => Ok(Gateway(site)),
            Holder::Person { .. } => Err(forbidden("the token that a site got when it enrolled")),
        }
    }
}
