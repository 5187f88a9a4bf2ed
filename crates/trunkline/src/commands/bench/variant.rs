//! How packets get from one site to the other: plain routing, or gateways with one of many configurations.

/// A way to carry packets, with a name to ask for it by.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    pub(super) name: String,
    pub(super) carrier: Carrier,
}

/// What carries.
#[derive(Debug, Clone)]
pub(super) enum Carrier {
    /// Plain routing.
    Direct,
    /// A gateway at each site.
    Trunk {
        /// The classes of both, in TOML; the gateway's own if none.
        classes: Option<String>,
        /// Other keys of the lanes than the gateway's own, a line of TOML each.
        lanes: String,
    },
}

impl Variant {
    /// Plain routing.
    pub(super) fn direct() -> Self {
        Self { name: super::report::REFERENCE.to_owned(), carrier: Carrier::Direct }
    }

    /// Gateways that are told nothing but addresses and keys.
    pub(super) fn defaults() -> Self {
        Self { name: "default".to_owned(), carrier: Carrier::Trunk { classes: None, lanes: String::new() } }
    }

    /// Gateways with these classes.
    pub(super) fn classes(name: &str, classes: String) -> Self {
        let carrier = Carrier::Trunk { classes: Some(classes), lanes: String::new() };
        Self { name: name.to_owned(), carrier }
    }

    /// Gateways with one class that takes everything: `queue` and other keys of it, in TOML.
    pub(super) fn one_class(name: &str, keys: &str) -> Self {
        Self::classes(name, format!("[[classes]]\nname = \"all\"\n{keys}\n"))
    }

    /// The same, over lanes with this congestion control. Its name tells.
    #[must_use]
    pub(super) fn over(self, name: &str) -> Self {
        self.with_lanes(name, &format!("congestion_control = \"{name}\""))
    }

    /// The same, over lanes whose segments leave as the window lets them. Its name tells.
    #[must_use]
    pub(super) fn unpaced(self) -> Self {
        self.with_lanes("unpaced", "edge_pacing = false")
    }

    fn with_lanes(mut self, name: &str, key: &str) -> Self {
        if let Carrier::Trunk { lanes, .. } = &mut self.carrier {
            lanes.extend([key, "\n"]);
        }
        Self { name: format!("{}-{name}", self.name), ..self }
    }
}
