//! Reading what is right of a file in which something is wrong, so that its other mistakes are found in the same go.

use std::collections::HashSet;

use toml::{Table, Value};

use super::findings::Finding;
use super::format::Format;
use super::key::KeyPath;
use super::read::read;
use super::walk::Form;

/// What is right of a tree.
#[derive(Debug)]
pub struct Partly<T> {
    /// What it says without the values that have mistakes of form. Nothing if a key at the top is missing, or if there is no mistake of
    /// form and still nothing can be read.
    pub read: Option<T>,
    /// The mistakes of form.
    pub found: Vec<Finding>,
    /// The values that were left out: what follows from their absence is no mistake of the file.
    pub left_out: Vec<KeyPath>,
}

/// Reads a tree without the values that have mistakes of form.
///
/// An unknown key is ignored, wherever it is. A wrong value is left out alone if its table does not need it, and with the table if it
/// does. In a list of tables these are values and elements of the list: a value in a table within an element is left out with that
/// table, since the meaning of one may depend on the other.
pub fn read_partly<T: Format>(tree: &Table) -> Partly<T> {
    let Form { mut found, unknown, left_out, .. } = Form::of::<T>(tree);
    let whole_entries = |found: &[Finding]| -> Vec<KeyPath> {
        let top = |one: &Finding| one.path.keys().next().map(|top| KeyPath::default().key(top));
        found.iter().filter(|one| !unknown.contains(&one.path)).filter_map(top).collect()
    };
    if found.is_empty() {
        match read::<T>(tree) {
            Ok(all) => return Partly { read: Some(all), found, left_out },
            Err(more) => found = more,
        }
    } else {
        let absent: HashSet<&KeyPath> = left_out.iter().chain(&unknown).collect();
        if let Some(rest) = without(tree, &absent) {
            let left_out = left_out.into_iter().filter(|path| !unknown.contains(path)).collect();
            return Partly { read: Some(rest), found, left_out };
        }
    }
    let left_out = whole_entries(&found);
    let read = without(tree, &left_out.iter().chain(&unknown).collect());
    Partly { read, found, left_out }
}

fn without<T: Format>(tree: &Table, absent: &HashSet<&KeyPath>) -> Option<T> {
    let rest = kept(&KeyPath::default(), &Value::Table(tree.clone()), absent)?;
    T::deserialize(rest).ok()
}

/// A value without what is left out of it; none if that is all.
fn kept(at: &KeyPath, value: &Value, absent: &HashSet<&KeyPath>) -> Option<Value> {
    if absent.contains(at) {
        return None;
    }
    Some(match value {
        Value::Table(table) => Value::Table(
            table
                .iter()
                .filter_map(|(key, value)| Some((key.clone(), kept(&at.key(key), value, absent)?)))
                .collect(),
        ),
        Value::Array(list) => Value::Array(
            list.iter()
                .enumerate()
                .filter_map(|(index, value)| kept(&at.index(index), value, absent))
                .collect(),
        ),
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::Findings;

    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    struct Site {
        name: String,
        tun: Tun,
        peers: Vec<Tun>,
        metrics: Option<Metrics>,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Metrics {
        listen: String,
        remote: bool,
    }

    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    struct Tun {
        #[schemars(range(min = 68, max = 9000))]
        mtu: u32,
        queues: u16,
    }

    impl Format for Site {}

    fn partly(text: &str) -> (Option<Site>, Vec<String>) {
        let partly = read_partly::<Site>(&toml::from_str(text).unwrap());
        (partly.read, partly.found.iter().map(|one| one.path.to_string()).collect())
    }

    #[test]
    fn what_is_right_is_read_beside_what_is_wrong() {
        let tun = |mtu| Tun { mtu, queues: 2 };
        let text =
            "nmae = 1\nname = \"a\"\n[tun]\nmtu = 100\nqueues = 2\nmut = 3\n[[peers]]\nx = 1\nmtu = 70\n";
        let (site, found) = partly(text);
        let peers = vec![Tun { mtu: 70, queues: 0 }];
        assert_eq!(site, Some(Site { name: "a".to_owned(), tun: tun(100), peers, ..Site::default() }));
        assert_eq!(found, ["nmae", "tun.mut", "peers[0].x"]);
    }

    #[test]
    fn a_value_out_of_range_or_of_another_type_is_left_out_and_the_rest_of_its_table_is_read() {
        for mtu in ["67", "9001", "\"100\"", "100.0"] {
            let (site, found) = partly(&format!(
                "name = \"a\"\n[tun]\nqueues = 2\nmtu = {mtu}\n[[peers]]\nmtu = 70\nqueues = 2\n"
            ));
            let peers = vec![Tun { mtu: 70, queues: 2 }];
            let tun = Tun { mtu: 0, queues: 2 };
            assert_eq!(site, Some(Site { name: "a".to_owned(), tun, peers, ..Site::default() }), "{mtu}");
            assert_eq!(found, ["tun.mtu"]);
        }
    }

    #[test]
    fn a_table_without_a_key_that_it_needs_is_left_out() {
        let (site, found) =
            partly("name = \"a\"\n[metrics]\nlisten = 5\nremote = true\n[tun]\nmtu = 67\nqueues = 2\n");
        let tun = Tun { mtu: 0, queues: 2 };
        assert_eq!(site, Some(Site { name: "a".to_owned(), tun, ..Site::default() }), "without metrics");
        assert_eq!(found, ["metrics.listen", "tun.mtu"]);
    }

    #[derive(Debug, Default, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields, default)]
    struct Lists {
        free: Vec<Peer>,
        bound: Vec<Peer>,
    }

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Peer {
        name: String,
        routes: Vec<u8>,
        tun: Option<Tun>,
    }

    impl Format for Lists {
        const TOGETHER: &'static [&'static str] = &["bound"];
    }

    /// What is left of a list with this element between two that are right, and what was left out.
    fn between(list: &str, element: &str) -> (Option<Vec<Peer>>, Vec<String>) {
        let text = format!(
            "[[{list}]]\nname = \"a\"\nroutes = []\n[[{list}]]\n{element}\n[[{list}]]\nname = \"c\"\nroutes = [3]\n"
        );
        let partly = read_partly::<Lists>(&toml::from_str(&text).unwrap());
        assert!(!partly.found.is_empty());
        let read = partly.read.map(|lists| if list == "free" { lists.free } else { lists.bound });
        (read, partly.left_out.iter().map(ToString::to_string).collect())
    }

    fn named(name: &str, routes: &[u8]) -> Peer {
        Peer { name: name.to_owned(), routes: routes.to_owned(), tun: None }
    }

    #[test]
    fn of_an_element_of_a_list_only_what_is_wrong_is_left_out() {
        let with = |middle: Vec<Peer>| {
            Some([named("a", &[])].into_iter().chain(middle).chain([named("c", &[3])]).collect::<Vec<_>>())
        };
        for list in ["free", "bound"] {
            let of = |element| between(list, element);
            let out = |path: &str| vec![format!("{list}[1]{path}")];
            assert_eq!(
                of("name = \"b\"\nroutes = [1, 256, 2]"),
                (with(vec![named("b", &[1, 2])]), out(".routes[1]"))
            );
            // The rest of a table may mean something else without the value.
            assert_eq!(
                of("name = \"b\"\nroutes = []\ntun = { mtu = 70, queues = -1 }"),
                (with(vec![named("b", &[])]), out(".tun"))
            );
            assert_eq!(
                of("name = \"b\"\nroutes = []\nrotes = []"),
                (with(vec![named("b", &[])]), Vec::new())
            );
        }
        assert_eq!(between("free", "name = 1\nroutes = []"), (with(Vec::new()), vec!["free[1]".to_owned()]));
        assert_eq!(between("free", "routes = []"), (with(Vec::new()), vec!["free[1]".to_owned()]));
        assert_eq!(between("bound", "name = 1\nroutes = []"), (Some(Vec::new()), vec!["bound".to_owned()]));
    }

    #[test]
    fn findings_are_at_the_places_of_the_file_and_never_follow_from_what_was_left_out() {
        let text = "[[free]]\n[[free]]\nname = \"b\"\nroutes = [256, 1, 1]\n[[free]]\nname = \"c\"\nroutes = [3]\ntun = 1\n";
        let tree = toml::from_str(text).unwrap();
        let partly = read_partly::<Lists>(&tree);
        assert_eq!(partly.read.unwrap().free, [named("b", &[1, 1]), named("c", &[3])]);
        let findings = Findings::new(&tree).without(partly.left_out);
        let free = findings.root().key("free");
        free.index(0).key("routes").index(1).report_plain("is there twice");
        free.index(1).key("routes").index(0).refuse("");
        for at in [&free.index(0).key("routes"), &free.index(1), &free.index(1).key("tun").key("mtu"), &free]
        {
            at.report_plain("follows");
        }
        free.index(0).key("name").misplaced("follows".to_owned(), String::new());
        let (found, misplaced) = findings.into_found();
        let found: Vec<_> = found.iter().map(|one| format!("{} {}", one.path, one.problem)).collect();
        assert_eq!(found, ["free[1].routes[2] is there twice", "free[2].routes[0] is 3"]);
        assert_eq!(misplaced, []);
    }
}
