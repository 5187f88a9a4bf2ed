//! HTTPS to a controller, whose certificate is known beforehand.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::aws_lc_rs;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};

/// The longest answer, bytes.
const MAX_ANSWER: u64 = 16 << 20;
/// How long a request may take beside what it waits for.
const TIME: Duration = Duration::from_secs(20);

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The controller refuses: its status, and what it says.
    Refused(u16, String),
    /// It cannot be reached, or does not answer as one.
    Away(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Refused(status, error) => write!(f, "the controller refuses ({status}): {error}"),
            Trouble::Away(error) => write!(f, "the controller does not answer: {error}"),
        }
    }
}

/// What it says with a refusal.
#[derive(Deserialize)]
struct Said {
    error: String,
}

/// A controller.
pub(super) struct Client {
    agent: Agent,
    url: String,
}

impl Client {
    /// The one at this URL, which shows this certificate (DER), or one that it has signed.
    pub(super) fn new(url: &str, certificate: &[u8]) -> Self {
        let trusted = Certificate::from_der(certificate).to_owned();
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::new_with_certs(&[trusted]))
            .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .https_only(true)
            // The controller is reached as it says, whatever proxy the environment names.
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .timeout_connect(Some(TIME))
            .build();
        Client { agent: config.into(), url: url.to_owned() }
    }

    /// Asks, and waits for so long beside the usual time; nothing if the answer has no content.
    pub(super) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        token: Option<&str>,
        body: &impl Serialize,
        wait: Duration,
    ) -> Result<Option<T>, Trouble> {
        let away = |error: ureq::Error| Trouble::Away(error.to_string());
        let request = self.agent.post(format!("{}{path}", self.url));
        let request = match token {
            Some(token) => request.header("Authorization", format!("Bearer {token}")),
            None => request,
        };
        let request = request.config().timeout_global(Some(TIME + wait)).build();
        let mut response = request.send_json(body).map_err(away)?;
        let status = response.status().as_u16();
        let body = response.body_mut().with_config().limit(MAX_ANSWER);
        match status {
            204 => Ok(None),
            200 => body.read_json().map(Some).map_err(away),
            _ => {
                let said = body.read_json::<Said>().map(|said| said.error);
                Err(Trouble::Refused(status, said.unwrap_or_else(|_| "no reason is given".to_owned())))
            }
        }
    }
}
