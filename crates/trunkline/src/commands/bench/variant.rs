//! The variants of a scenario: plain routing, or gateways with one of many configurations.

/// A way to carry packets between the sites.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    /// The name in the table and for `--variant`.
    pub(super) name: String,
    pub(super) carrier: Carrier,
}

/// The means that carry packets.
#[derive(Debug, Clone)]
pub(super) enum Carrier {
    /// Plain routing.
    Direct,
    /// A gateway at each site.
    Trunk {
        /// The classes of both gateways, in TOML; `None` for the default classes.
        classes: Option<String>,
        /// Keys of the table `lanes` that differ from the defaults, one line of TOML each.
        lanes: String,
    },
}

impl Variant {
    /// Plain routing.
    pub(super) fn direct() -> Self {
        Self { name: super::report::REFERENCE.to_owned(), carrier: Carrier::Direct }
    }

    /// Gateways with the default configuration: only addresses and keys are set.
    pub(super) fn defaults() -> Self {
        Self { name: "default".to_owned(), carrier: Carrier::Trunk { classes: None, lanes: String::new() } }
    }

    /// Gateways with these classes.
    pub(super) fn classes(name: &str, classes: String) -> Self {
        let carrier = Carrier::Trunk { classes: Some(classes), lanes: String::new() };
        Self { name: name.to_owned(), carrier }
    }

    /// Gateways with one class for all packets, with these `keys` in TOML.
    pub(super) fn one_class(name: &str, keys: &str) -> Self {
        Self::classes(name, format!("[[classes]]\nname = \"all\"\n{keys}\n"))
    }

    /// The same, over lanes with this congestion control, which is appended to the variant's name.
    #[must_use]
    pub(super) fn over(self, name: &str) -> Self {
        self.with_lanes(name, &format!("congestion_control = \"{name}\""))
    }

    /// The same, over lanes without edge pacing; `unpaced` is appended to the variant's name.
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
