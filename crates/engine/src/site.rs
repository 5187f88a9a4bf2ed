//! A trunk of an experiment as a gateway's file has it.

use serde::Serialize;
use trunkline_schema::{Classes, Encryption, LanesSpec};

/// What a site's file says of trunks.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct SiteTrunks {
    /// What protects the lanes; TLS.
    pub encryption: Option<Encryption>,
    /// The classes. A word for some goes before tables.
    pub classes: Classes,
    /// What all lanes have.
    #[serde(skip_serializing_if = "is_default")]
    pub lanes: LanesSpec,
}

fn is_default(lanes: &LanesSpec) -> bool {
    *lanes == LanesSpec::default()
}

impl SiteTrunks {
    /// Adds to each class those rules of the same class in `other` that name a source or destination.
    pub fn add_rules(&mut self, other: &SiteTrunks) {
        let (Classes::List(own), Classes::List(other)) = (&mut self.classes, &other.classes) else { return };
        for (own, other) in own.iter_mut().zip(other) {
            let (Some(own), Some(other)) = (&mut own.rules, &other.rules) else { continue };
            let named = other.iter().filter(|rule| rule.source.is_some() || rule.destination.is_some());
            own.extend(named.cloned());
        }
    }

    /// Puts a prefix in place of each host that a rule names, given the class, the rule's key, and the host.
    pub fn name_hosts(&mut self, mut prefix: impl FnMut(&str, &str, &str) -> String) {
        let Classes::List(classes) = &mut self.classes else { return };
        for class in classes {
            for rule in class.rules.iter_mut().flatten() {
                for (key, host) in [("source", &mut rule.source), ("destination", &mut rule.destination)] {
                    if let Some(host) = host {
                        *host = prefix(&class.name.0, key, host);
                    }
                }
            }
        }
    }
}
