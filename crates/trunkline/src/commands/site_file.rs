//! A site's file as `init` and `join` write it, and changes of one that people have written: what they do not change stays as it is,
//! comments included.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::Path;

use ipnet::IpNet;
use toml_edit::{Array, ArrayOfTables, DocumentMut, InlineTable, Item, Table, Value, value};
use trunkline_gateway::config::Config;
use trunkline_schema::quantity::Rate;
use trunkline_units as units;

use crate::commands::site::load;
use crate::failure::Failure;

/// A peer, as a file has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct NewPeer {
    pub(super) name: String,
    pub(super) public_key: String,
    pub(super) endpoint: Option<String>,
    pub(super) routes: Vec<IpNet>,
    /// bit/s.
    pub(super) reserved: Option<u64>,
    /// A name of the one path, and the interface that it is bound to.
    pub(super) path: Option<(String, String)>,
}

/// The text of a new site's file.
pub(super) struct NewSite<'a> {
    pub(super) made_by: &'a str,
    pub(super) listen: &'a [String],
    pub(super) key_file: &'a str,
    /// The name of the device, if it is not the default.
    pub(super) device: Option<String>,
    pub(super) address: IpNet,
    pub(super) queues: u16,
    pub(super) classes: &'a str,
}

impl NewSite<'_> {
    pub(super) fn text(&self) -> String {
        let mut document = DocumentMut::new();
        if !self.listen.is_empty() {
            document["listen"] = value(self.listen.iter().map(String::as_str).collect::<Array>());
        }
        document["private_key_file"] = value(self.key_file);
        if !self.classes.is_empty() {
            document["classes"] = value(self.classes);
        }
        let mut tun = Table::new();
        if let Some(device) = &self.device {
            tun["name"] = value(device);
        }
        tun["address"] = value(Array::from_iter([self.address.to_string()]));
        if self.queues != 1 {
            tun["queues"] = value(i64::from(self.queues));
        }
        document["tun"] = Item::Table(tun);
        format!(
            "# Made by `trunkline {}`. Every key is in trunkline.toml(5); `trunkline reload` applies a change.\n\n{document}",
            self.made_by
        )
    }
}

impl NewSite<'_> {
    /// The same with its first peer, as a gateway would read it from this path.
    pub(super) fn with_peer(&self, peer: &NewPeer, path: &Path) -> Result<String, Failure> {
        let mut file = SiteFile::parse(path, self.text())?;
        file.add_peer(peer);
        file.check()?;
        Ok(file.document.to_string())
    }
}

/// A file, read to be changed.
#[derive(Clone)]
pub(super) struct SiteFile<'a> {
    path: &'a Path,
    before: String,
    document: DocumentMut,
}

impl<'a> SiteFile<'a> {
    /// Reads it, and what it means.
    pub(super) fn open(path: &'a Path) -> Result<(Self, Config), Failure> {
        let config = load(path)?;
        let text = fs::read_to_string(path).map_err(Failure::doing(&path.display().to_string()))?;
        let file = Self::parse(path, text)?;
        Ok((file, config))
    }

    fn parse(path: &'a Path, text: String) -> Result<Self, Failure> {
        let document = text.parse().map_err(Failure::doing(&path.display().to_string()))?;
        Ok(Self { path, before: text, document })
    }

    /// The word in `classes`; `None` if the file has classes of its own.
    pub(super) fn classes_word(&self) -> Option<&str> {
        match self.document.get("classes") {
            None => Some(""),
            Some(item) => item.as_str(),
        }
    }

    /// Adds a peer behind the others.
    pub(super) fn add_peer(&mut self, peer: &NewPeer) {
        let mut table = Table::new();
        table["name"] = value(&peer.name);
        table["public_key"] = value(&peer.public_key);
        if let Some(endpoint) = &peer.endpoint {
            table["endpoint"] = value(endpoint);
        }
        table["routes"] = value(peer.routes.iter().map(ToString::to_string).collect::<Array>());
        if let Some(reserved) = peer.reserved {
            table["reserved"] = value(Rate(units::Rate::from_bits_per_second(reserved)).to_string());
        }
        if let Some((name, interface)) = &peer.path {
            let path = InlineTable::from_iter([("name", name.as_str()), ("interface", interface.as_str())]);
            table["paths"] = value(Array::from_iter([path]));
        }
        match self.document.entry("peers").or_insert(Item::ArrayOfTables(ArrayOfTables::new())) {
            Item::ArrayOfTables(peers) => peers.push(table),
            // `peers = [{ … }]`
            Item::Value(Value::Array(peers)) => peers.push(table.into_inline_table()),
            _ => {}
        }
    }

    /// Removes the peer of this name. Whether there was one.
    pub(super) fn remove_peer(&mut self, name: &str) -> bool {
        let before = self.document.to_string();
        match self.document.get_mut("peers") {
            Some(Item::ArrayOfTables(peers)) => {
                peers.retain(|peer| peer.get("name").and_then(Item::as_str) != Some(name));
            }
            Some(Item::Value(Value::Array(peers))) => peers.retain(|peer| {
                let named = peer.as_inline_table().and_then(|table| table.get("name"));
                named.and_then(Value::as_str) != Some(name)
            }),
            _ => {}
        }
        self.document.to_string() != before
    }

    /// Adds an address of the device.
    pub(super) fn add_address(&mut self, address: IpNet) {
        let addresses = &mut self.document["tun"]["address"];
        match addresses.as_array_mut() {
            Some(addresses) => addresses.push(address.to_string()),
            None => *addresses = value(Array::from_iter([address.to_string()])),
        }
    }

    /// Checks the changed text as a gateway would.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let checked = Config::parse(&self.document.to_string(), self.path);
        checked.map(|_| ()).map_err(|mistakes| Failure::Input(mistakes.to_string()))
    }

    /// Writes the changed text in place of the former, if a gateway would take it.
    pub(super) fn write(&self) -> Result<(), Failure> {
        self.check()?;
        overwrite(self.path, &self.document.to_string())
    }

    /// Writes the former text again.
    pub(super) fn restore(&self) -> Result<(), Failure> {
        overwrite(self.path, &self.before)
    }
}

/// Writes a new file, which nobody sees half written, and which has the owner `like` has.
pub(super) fn create(path: &Path, text: &str, mode: u32, like: Option<(u32, u32)>) -> Result<(), Failure> {
    write(path, text, mode, like).map_err(|error| failed(path, &error))
}

/// Writes a file in place of the one that is there, with its owner and mode.
pub(super) fn overwrite(path: &Path, text: &str) -> Result<(), Failure> {
    let replaced = || {
        // A link stays one.
        let path = fs::canonicalize(path)?;
        let old = fs::metadata(&path)?;
        write(&path, text, old.permissions().mode() & 0o7777, Some((old.uid(), old.gid())))
    };
    replaced().map_err(|error| failed(path, &error))
}

fn failed(path: &Path, error: &io::Error) -> Failure {
    let text = format!("cannot write {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::PermissionDenied => Failure::Lacking(text),
        _ => Failure::Other(text),
    }
}

fn write(path: &Path, text: &str, mode: u32, owner: Option<(u32, u32)>) -> io::Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}", std::process::id()));
    let attempt = || -> io::Result<()> {
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        if let Some((user, group)) = owner {
            fchown(&file, Some(user), Some(group))?;
        }
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    attempt().inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const EDITED: &str = r#"# The head office.
listen = ["0.0.0.0:4600"]   # behind the firewall
private_key_file = "a.key"
tun.address = ["10.200.1.1/24"]

[[peers]]
name = "b" # Berlin
public_key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="
routes = ["10.200.1.2/32", "10.2.0.0/16"]
"#;

    fn peer(name: &str) -> NewPeer {
        NewPeer {
            name: name.to_owned(),
            public_key: "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI=".to_owned(),
            endpoint: None,
            routes: vec!["10.200.1.3/32".parse().unwrap(), "10.3.0.0/16".parse().unwrap()],
            ..NewPeer::default()
        }
    }

    fn parse(text: &str) -> SiteFile<'static> {
        SiteFile::parse(Path::new("a.toml"), text.to_owned()).unwrap()
    }

    fn config(text: &str) -> Config {
        Config::parse(text, Path::new("a.toml")).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"))
    }

    #[test]
    fn a_new_site_starts_without_peers_and_gets_some() {
        let site = NewSite {
            made_by: "init",
            listen: &["0.0.0.0:4600".to_owned()],
            key_file: "a.key",
            device: None,
            address: "10.200.1.1/24".parse().unwrap(),
            queues: 2,
            classes: "split",
        };
        let text = site.text();
        assert!(config(&text).peers.is_empty());
        let mut file = parse(&text);
        assert_eq!(file.classes_word(), Some("split"));
        file.add_peer(&peer("b"));
        file.add_peer(&NewPeer {
            name: "c".to_owned(),
            public_key: "AwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwM=".to_owned(),
            endpoint: Some("c.example.net:4600".to_owned()),
            routes: vec!["10.200.1.4/32".parse().unwrap()],
            reserved: Some(2_500_000),
            path: Some(("lte".to_owned(), "wwan0".to_owned())),
        });
        let config = config(&file.document.to_string());
        assert_eq!(config.peers.iter().map(|peer| peer.name.as_str()).collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!((config.tun.queues, config.peers[0].routes.len()), (2, 2));
        assert_eq!(config.peers[1].reserved.map(units::Rate::bits_per_second), Some(2_500_000));
        assert_eq!(config.peers[1].paths[0].via.interface.as_deref(), Some("wwan0"));
    }

    #[test]
    fn what_people_wrote_stays_as_it_is() {
        let mut file = parse(EDITED);
        file.add_peer(&peer("c"));
        let text = file.document.to_string();
        assert!(text.starts_with(EDITED), "{text}");
        assert_eq!(config(&text).peers.len(), 2);
        let mut file = parse(&text);
        assert!(!file.remove_peer("nobody") && file.remove_peer("c"));
        assert_eq!(file.document.to_string(), EDITED);
        assert!(file.remove_peer("b"));
        file.add_address("10.200.2.7/24".parse().unwrap());
        let config = config(&file.document.to_string());
        assert!(config.peers.is_empty());
        assert_eq!(config.tun.addresses.len(), 2);
    }

    #[test]
    fn peers_in_one_line_are_changed_too() {
        let text = r#"peers = [{ name = "b", public_key = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=", routes = ["10.2.0.0/16"] }]
listen = ["0.0.0.0:4600"]
private_key_file = "a.key"
"#;
        let mut file = parse(text);
        file.add_peer(&peer("c"));
        assert_eq!(config(&file.document.to_string()).peers.len(), 2);
        assert!(file.remove_peer("b"));
        assert_eq!(config(&file.document.to_string()).peers[0].name, "c");
        file.add_address("10.200.2.7/24".parse().unwrap());
        assert_eq!(config(&file.document.to_string()).tun.addresses.len(), 1);
    }

    #[test]
    fn a_name_is_a_value_and_never_more_of_the_file() {
        let mut file = parse(EDITED);
        file.add_peer(&NewPeer { name: "x\"\n[lanes]\nfwmark = 1 #".to_owned(), ..peer("c") });
        let again: DocumentMut = file.document.to_string().parse().unwrap();
        assert!(again.get("lanes").is_none());
    }

    #[test]
    fn a_file_is_replaced_as_a_whole_with_its_mode() {
        let directory = std::env::temp_dir().join(format!("trunkline-site-file-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let path = directory.join("a.toml");
        create(&path, EDITED, 0o640, None).unwrap();
        let (mut file, _) = SiteFile::open(&path).unwrap();
        file.add_peer(&peer("c"));
        file.write().unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
        assert_eq!(Config::load(&path).unwrap().peers.len(), 2);
        file.restore().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), EDITED);
        file.add_peer(&peer("c"));
        assert!(matches!(file.write(), Err(Failure::Input(_))), "two peers of one name");
        assert_eq!(fs::read_to_string(&path).unwrap(), EDITED);
        assert_eq!(fs::read_dir(&directory).unwrap().count(), 1, "nothing is left beside it");
        fs::remove_dir_all(&directory).unwrap();
    }
}
