//! Checks of a trunk.

use trunkline_link::check::queue;
use trunkline_queue::Share;
use trunkline_tcp::CongestionAlgorithm;
use trunkline_trunk::compress::Compression;
use trunkline_trunk::{ClassSettings, CongestionControl, Transport, TrunkPlan};

use super::{Checked, SettingsError, dscp, ensure, tcp};
use crate::TrunkSettings;

impl TrunkSettings {
    /// Whether a trunk can be like this.
    pub fn check(&self) -> Result<(), SettingsError> {
        self.check_sites()?;
        let lanes = self.plans.each_ref().map(TrunkPlan::lane_count);
        ensure(lanes[0] == lanes[1], "plans", lanes, "as many lanes in one direction as in the other")?;
        for (side, plan) in self.plans.iter().enumerate() {
            Self::check_plan(plan).map_err(|error| error.within(&format!("plans[{side}]")))?;
        }
        let carriers = self.plans.each_ref().map(|plan| {
            plan.groups.iter().map(|group| (group.lanes, group.transport, group.delivery)).collect::<Vec<_>>()
        });
        ensure(
            carriers[0] == carriers[1],
            "plans",
            &carriers,
            "groups with the same lanes, transport and delivery in both directions",
        )?;
        let paths = self.plans.each_ref().map(TrunkPlan::path_count);
        ensure(paths[0] == paths[1], "plans", paths, "as many paths in one direction as in the other")?;
        let fewer = paths[0] == 1 || lanes[0] < TrunkPlan::MAX_LANES;
        ensure(fewer, "plans", lanes, "up to 31 lanes over several paths")?;
        let ends = self.path_ends.len();
        let have_ends = ends == paths[0] || ends == 0 && paths[0] == 1;
        ensure(have_ends, "path_ends", ends, "two nodes for each of several paths")?;
        tcp("tcp[0]", &self.tcp[0])?;
        tcp("tcp[1]", &self.tcp[1])?;
        ensure((1..=1 << 24).contains(&self.flows), "flows", self.flows, "1 to 16777216")
    }

    fn check_sites(&self) -> Checked {
        let [left, right] = &self.sites;
        for (side, site) in self.sites.iter().enumerate() {
            let place = format!("sites[{side}]");
            ensure(!site.is_empty(), &place, site, "at least one node")?;
            if let Some(node) = site.iter().find(|node| left.contains(node) && right.contains(node)) {
                let problem = "is on both sides; allowed: one";
                return Err(SettingsError::Node { place, node: *node, problem });
            }
        }
        Ok(())
    }

    fn check_plan(plan: &TrunkPlan) -> Checked {
        ensure(
            (1..=TrunkPlan::MAX_CLASSES).contains(&plan.classes.len()),
            "classes",
            plan.classes.len(),
            "1 to 16",
        )?;
        ensure(
            (1..=TrunkPlan::MAX_LANES).contains(&plan.lane_count()),
            "groups",
            plan.lane_count(),
            "1 to 32 lanes in all",
        )?;
        for (number, group) in plan.groups.iter().enumerate() {
            ensure(group.lanes > 0, &format!("groups[{number}].lanes"), group.lanes, "1 or more")?;
            let place = format!("groups[{number}]");
            dscp(group.dscp).map_err(|error| error.within(&place))?;
            if let CongestionControl::Named(name) = &group.congestion_control {
                let problem = |_| SettingsError::Value {
                    place: format!("{place}.congestion_control"),
                    value: format!("{name:?}"),
                    allowed: CongestionAlgorithm::ALL.map(CongestionAlgorithm::name).join(", ").into(),
                };
                name.parse::<CongestionAlgorithm>().map_err(problem)?;
            }
        }
        for (number, class) in plan.classes.iter().enumerate() {
            Self::check_class(plan, class).map_err(|error| error.within(&format!("classes[{number}]")))?;
        }
        Ok(())
    }

    fn check_class(plan: &TrunkPlan, class: &ClassSettings) -> Checked {
        ensure(class.group < plan.groups.len(), "group", class.group, "the place of a group of the plan")?;
        queue(&class.queue).map_err(|error| error.within("queue"))?;
        let Share { weight, guarantee, ceiling, .. } = class.share;
        ensure(weight > 0, "share.weight", weight, "1 or more")?;
        for (place, rate) in [("share.guarantee", guarantee), ("share.ceiling", ceiling)] {
            let bits = rate.map_or(1, trunkline_units::Rate::bits_per_second);
            ensure(bits > 0, place, bits, "1 bit/s or more")?;
        }
        let drops_only_copies = !plan.groups[class.group].is_reliable() && class.filters_retransmissions;
        ensure(
            !drops_only_copies,
            "filters_retransmissions",
            class.filters_retransmissions,
            "false on lanes of datagrams",
        )?;
        let group = &plan.groups[class.group];
        let replicates = !class.replicates || group.transport == Transport::Tcp && group.lanes > 1;
        ensure(replicates, "replicates", class.replicates, "false without two lanes over TCP")?;
        let compresses = plan.groups[class.group].compression == Compression::On
            && plan.groups[class.group].transport != Transport::Tcp;
        ensure(!compresses, "group", class.group, "one over TCP, or one that compresses no headers")
    }
}
