//! What gateways ask: to enrol, and for their configurations.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::time::{Instant, timeout_at};
use trunkline_sites::{Enrolled, Enrolment, MAX_WAIT_S, Poll, Signed, now, secret};

use super::App;
use super::asked::Content;
use super::holders::Gateway;
use super::refusal::{Problem, Refusal};

/// The characters of a public key.
const KEY_CHARS: usize = 44;

/// A gateway enrols as a site, by an invitation.
#[utoipa::path(post, path = "/v1/enrol", tag = "gateways", request_body = Enrolment, responses(
    (status = 200, body = Enrolled),
    (status = 403, body = Problem, description = "the invitation is unknown, was used or has expired"),
    (status = 409, body = Problem, description = "another site has this key"),
    (status = 422, body = Problem, description = "the key is none"),
))]
pub(super) async fn enrol(
    State(app): State<Arc<App>>,
    Content(enrolment): Content<Enrolment>,
) -> Result<Json<Enrolled>, Refusal> {
    let Enrolment { invitation, public_key } = enrolment;
    let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=');
    if public_key.len() != KEY_CHARS || !public_key.bytes().all(is_base64) {
        let allowed = "allowed: 44 characters of base64";
        return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, format!("no public key; {allowed}")));
    }
    let token = secret().map_err(|_| Refusal::broken())?;
    let given = token.clone();
    let site = app.with_store(move |store| store.enrol(now(), &invitation, &public_key, &given)).await?;
    Ok(Json(Enrolled { site, network: app.identity.network.clone(), token }))
}

/// A site says how it is, and waits for another configuration than it has.
#[utoipa::path(post, path = "/v1/poll", tag = "gateways", request_body = Poll, security(("token" = [])), responses(
    (status = 200, body = Signed, description = "another configuration"),
    (status = 204, description = "none, in the time that was to be waited"),
    (status = 401, body = Problem),
))]
pub(super) async fn poll(
    State(app): State<Arc<App>>,
    Gateway(site): Gateway,
    Content(poll): Content<Poll>,
) -> Response {
    let Poll { have, wait_s, report } = poll;
    app.fleet_mut().see(&site, have.clone(), report);
    let deadline = Instant::now() + Duration::from_secs(wait_s.min(MAX_WAIT_S).into());
    let mut changed = app.changed.subscribe();
    loop {
        changed.borrow_and_update();
        let newer = app.fleet().newer(&site, have.as_deref());
        if let Some(signed) = newer {
            return Json(&*signed).into_response();
        }
        if !matches!(timeout_at(deadline, changed.changed()).await, Ok(Ok(()))) {
            return StatusCode::NO_CONTENT.into_response();
        }
    }
}
