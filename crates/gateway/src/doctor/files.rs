//! Files of this machine: the kernel's settings, and who may read a site's.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::Level::Fault;
use super::{Examination, Level};
use crate::config::{Config, PrivateKeySource};

/// The user that the unit of a package runs as, and where that unit's sites are.
const UNIT_USER: &str = "trunkline";
const UNIT_SITES: &str = "etc/trunkline";

/// The files below a root, which is `/` but in tests.
pub(super) struct Files(PathBuf);

impl Files {
    pub(super) fn of_this_machine() -> Self {
        Files(PathBuf::from("/"))
    }

    #[cfg(test)]
    pub(super) fn below(root: &Path) -> Self {
        Files(root.to_owned())
    }

    /// The text of a file, without space around it; `None` if it is not there or cannot be read.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        Some(fs::read_to_string(self.0.join(path)).ok()?.trim().to_owned())
    }

    /// The numbers in a file.
    pub(super) fn numbers(&self, path: &str) -> Vec<u64> {
        let text = self.text(path).unwrap_or_default();
        text.split_whitespace().filter_map(|word| word.parse().ok()).collect()
    }

    /// The first number in a file.
    pub(super) fn number(&self, path: &str) -> Option<u64> {
        self.numbers(path).first().copied()
    }

    /// The user and the group of this name.
    fn user(&self, name: &str) -> Option<(u32, u32)> {
        let users = self.text("etc/passwd")?;
        let mut fields = users.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let fields = fields.find(|fields| fields.first() == Some(&name))?;
        Some((fields.get(2)?.parse().ok()?, fields.get(3)?.parse().ok()?))
    }
}

/// The user and the group that the unit of a package runs as, if this machine has them.
pub fn unit_user() -> Option<(u32, u32)> {
    Files::of_this_machine().user(UNIT_USER)
}

/// Whether the unit's user can read the files of a site that the unit runs.
pub(super) fn examine(files: &Files, site: &Config, examination: &mut Examination) {
    let sites = files.0.join(UNIT_SITES);
    let Some((user, group)) = files.user(UNIT_USER).filter(|_| site.file.starts_with(&sites)) else { return };
    let unit = format!("{UNIT_USER}@{}.service", site.name);
    let unreadable = |path: &Path, remedy: String| -> Option<(Level, String, String)> {
        let metadata = fs::metadata(path).ok()?;
        (!may_read(&metadata, user, group)).then(|| {
            let problem = format!("user {UNIT_USER}, as which {unit} runs, may not read {}", path.display());
            (Fault, problem, remedy)
        })
    };
    let file = site.file.display();
    examination
        .look("file", unreadable(&site.file, format!("chgrp {UNIT_USER} '{file}' && chmod 0640 '{file}'")));
    if let PrivateKeySource::File(key) = &site.private_key {
        examination.look(
            "key",
            unreadable(key, format!("chown {UNIT_USER}: '{0}' && chmod 0400 '{0}'", key.display())),
        );
    }
}

/// Whether a user with one group may read a file, by its owner and mode.
fn may_read(file: &Metadata, user: u32, group: u32) -> bool {
    let bit = match () {
        () if user == 0 => return true,
        () if file.uid() == user => 0o400,
        () if file.gid() == group => 0o040,
        () => 0o004,
    };
    file.mode() & bit != 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_file_that_the_units_user_may_not_read_is_a_fault() {
        let root = std::env::temp_dir().join(format!("trunkline-doctor-{}-unit", std::process::id()));
        let sites = root.join(UNIT_SITES);
        fs::create_dir_all(&sites).expect("a directory");
        let own = fs::metadata(&sites).expect("its metadata");
        let key = crate::keys::SecretKey::generate().expect("a key").to_base64();
        fs::write(sites.join("a.key"), &*key).expect("a key");
        fs::write(sites.join("a.toml"), "private_key_file = \"a.key\"\n").expect("a file");
        let site = Config::load(&sites.join("a.toml")).expect("a site");
        let mode = |file: &str, mode: u32| {
            fs::set_permissions(sites.join(file), fs::Permissions::from_mode(mode)).expect("a mode");
        };
        let subjects = |user: u32, group: u32| {
            fs::write(root.join("etc/passwd"), format!("root:x:0:0::/:\n{UNIT_USER}:x:{user}:{group}::/:\n"))
                .expect("users");
            let mut examination = Examination::default();
            examine(&Files::below(&root), &site, &mut examination);
            examination.findings.into_iter().map(|one| one.subject).collect::<Vec<_>>()
        };
        let (user, group) = (own.uid() + 1000, own.gid() + 1000);
        mode("a.toml", 0o644);
        mode("a.key", 0o400);
        assert_eq!(subjects(user, group), ["key"]);
        mode("a.toml", 0o640);
        assert_eq!(subjects(user, group), ["file", "key"]);
        assert_eq!(subjects(user, own.gid()), ["key"], "its group may read the file");
        mode("a.key", 0o440);
        assert_eq!(subjects(user, own.gid()), [""; 0]);
        // Without the user there is no unit.
        fs::write(root.join("etc/passwd"), "root:x:0:0::/:\n").expect("users");
        let mut examination = Examination::default();
        examine(&Files::below(&root), &site, &mut examination);
        assert_eq!(examination, Examination::default());
        fs::remove_dir_all(root).expect("it is removed");
    }
}
