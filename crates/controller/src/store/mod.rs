//! Where a network's documents are kept: a `SQLite` file, or a `PostgreSQL` database that several controllers share, with every revision that
//! was ever applied, its plan, who applied it and why.
//!
//! A revision is written in one transaction or not at all, and never changed: a process that is killed, a full disk or a second writer
//! leave the store as it was. A writer names the revision that its document was made from; if that is not the latest, it is told what
//! others have changed, and nothing is written.
//!
//! Beside them are the sites that have enrolled with their public keys, invitations, tokens of people, how far a revision is rolled out, and
//! a log of all changes. Of secrets that others hold it has digests only.

mod database;
mod error;
mod members;
mod place;
mod postgres;
mod rollout;
mod sqlite;
mod value;

use std::collections::BTreeMap;

use serde::Serialize;
use trunkline_schema::Mistakes;
use trunkline_sites::digest_of;
use utoipa::ToSchema;

use crate::changes::changes;
use crate::document::Document;
use crate::plan::{Plan, plan};
use database::Database;
pub use error::StoreError;
use members::record;
pub use members::{Author, Event, Holder, Member, Role};
pub use place::{DatabaseUrl, Place};
pub use rollout::{Rollout, Steps};
use value::{DatabaseError, Row, SCHEMA, Value};

const COLUMNS: &str = "number, applied_at, applied_by, note, document, plan";

/// A document that was applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// 1 and so on.
    pub number: u64,
    /// Seconds since 1970.
    pub at: u64,
    /// Who applied it.
    pub by: String,
    /// Why.
    pub note: String,
    /// The document.
    pub document: String,
    /// What it means.
    pub plan: Plan,
}

impl Revision {
    /// What it means, as it was read when it was applied.
    ///
    /// # Errors
    /// What a program of another version finds wrong in it.
    pub fn read(&self) -> Result<Document, Mistakes> {
        Document::parse("the document", &self.document)
    }

    /// It in short.
    pub fn entry(&self) -> Entry {
        let refused = self.plan.refused().count();
        Entry {
            revision: self.number,
            at: self.at,
            by: self.by.clone(),
            note: self.note.clone(),
            carried: self.plan.trunks.len() - refused,
            refused,
        }
    }
}

/// A revision in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Entry {
    /// Its number.
    pub revision: u64,
    /// When it was applied.
    pub at: u64,
    /// By whom.
    pub by: String,
    /// Why.
    pub note: String,
    /// Trunks that it carries.
    pub carried: usize,
    /// Trunks that it refuses.
    pub refused: usize,
}

/// A document that is to be applied.
#[derive(Debug, Clone, Copy)]
pub struct Proposal<'p> {
    /// The file's name, for messages.
    pub name: &'p str,
    /// The document.
    pub text: &'p str,
    /// The revision that it was made from; 0: none.
    pub from: u64,
    /// Who applies it.
    pub by: &'p str,
    /// Why.
    pub note: &'p str,
    /// Seconds since 1970.
    pub at: u64,
    /// Whether it is applied even if trunks are refused.
    pub partly: bool,
    /// In which steps its sites get it; none: all at once.
    pub steps: Option<&'p Steps>,
}

/// Revisions, and what is kept beside them.
#[derive(Debug)]
pub struct Store {
    place: Place,
    database: Database,
}

impl Store {
    /// Opens a store that is there.
    pub fn open(place: &Place) -> Result<Self, StoreError> {
        if place.file().is_some_and(|path| !path.exists()) {
            return Err(StoreError::Missing(place.clone()));
        }
        let mut store = Store::connect(place, false)?;
        match store.ask(Database::version)? {
            Some(_) => store.known(),
            None => Err(StoreError::Missing(place.clone())),
        }
    }

    /// Opens a store, or makes an empty one.
    pub fn create(place: &Place) -> Result<Self, StoreError> {
        Store::connect(place, true)?.known()
    }

    fn connect(place: &Place, makes: bool) -> Result<Self, StoreError> {
        let database = Database::open(place, makes).map_err(|error| error.at(place))?;
        Ok(Store { place: place.clone(), database })
    }

    /// This one with the tables of this version; those of a former one are upgraded.
    fn known(mut self) -> Result<Self, StoreError> {
        if self.ask(Database::version)? != Some(SCHEMA) {
            let place = self.place.clone();
            self.change(|database| match database.version()? {
                Some(version) if version > SCHEMA => {
                    Err(Failed::Refused(StoreError::Newer { place, version }))
                }
                // Another process may have done it meanwhile.
                Some(SCHEMA) => Ok(()),
                version => Ok(database.upgrade(version)?),
            })?;
        }
        Ok(self)
    }

    /// Where it is.
    pub const fn place(&self) -> &Place {
        &self.place
    }

    /// Whether this process may serve the store: one at a time may, until it ends or loses its connection to the database.
    pub fn leads(&mut self) -> Result<bool, StoreError> {
        self.ask(Database::leads)
    }

    /// The number of the latest revision; 0: there is none.
    pub fn latest_number(&mut self) -> Result<u64, StoreError> {
        self.ask(latest_number)
    }

    /// The latest revision.
    pub fn latest(&mut self) -> Result<Option<Revision>, StoreError> {
        latest(&self.place, &mut self.database)
    }

    /// The revision of this number.
    pub fn revision(&mut self, number: u64) -> Result<Revision, StoreError> {
        if let Some(revision) = find(&self.place, &mut self.database, number)? {
            return Ok(revision);
        }
        let latest = self.latest_number()?;
        Err(StoreError::NoRevision { place: self.place.clone(), number, latest })
    }

    /// Applies a document: the revision that it has become.
    pub fn apply(&mut self, proposal: &Proposal<'_>) -> Result<Revision, StoreError> {
        let document = Document::parse(proposal.name, proposal.text).map_err(StoreError::Document)?;
        let place = self.place.clone();
        self.change(|database| {
            let before = latest(&place, database)?;
            let number = before.as_ref().map_or(0, |before| before.number);
            if number != proposal.from {
                let made_from = match proposal.from {
                    0 => None,
                    from => find(&place, database, from)?,
                };
                let latest = before.as_ref();
                return Err(Failed::Refused(StoreError::Conflict {
                    from: proposal.from,
                    latest: number,
                    by: latest.map_or_else(String::new, |latest| latest.by.clone()),
                    changed: changes(document_of(made_from.as_ref()), document_of(latest)),
                }));
            }
            if before.as_ref().is_some_and(|before| before.document == proposal.text) {
                return Err(Failed::Refused(StoreError::Same(number)));
            }
            if let Some(running) = rollout::running(database)? {
                return Err(Failed::Refused(StoreError::RollsOut(running.revision)));
            }
            let plan = plan(&document, before.as_ref().map(|before| &before.plan));
            if !proposal.partly && plan.refused().next().is_some() {
                return Err(Failed::Refused(StoreError::Refused(Box::new(plan))));
            }
            let revision = Revision {
                number: number + 1,
                at: proposal.at,
                by: proposal.by.to_owned(),
                note: proposal.note.to_owned(),
                document: proposal.text.to_owned(),
                plan,
            };
            insert(database, &revision)?;
            let author = Author { by: proposal.by, at: proposal.at };
            record(database, author, &format!("applied revision {}", revision.number))?;
            // Of the first one there is nothing to return to.
            if let Some(steps) = proposal.steps.filter(|_| number > 0) {
                rollout::begin(database, revision.number, steps)?;
            }
            Ok(revision)
        })
    }

    /// The revision that is rolled out in steps, if one is.
    pub fn rollout(&mut self) -> Result<Option<Rollout>, StoreError> {
        self.ask(rollout::running)
    }

    /// Goes on with the next step of a roll-out; after the last one it is done. Who decides on another step than the one that runs changes nothing.
    pub fn advance(&mut self, author: Author<'_>, seen: &Rollout) -> Result<(), StoreError> {
        self.change(|database| {
            if rollout::running(database)?.as_ref() == Some(seen) {
                rollout::advance(database, author, seen)?;
            }
            Ok(())
        })
    }

    /// Ends a roll-out: all sites get what it was to give them.
    pub fn finish(&mut self, author: Author<'_>) -> Result<u64, StoreError> {
        self.change(|database| {
            let running = rollout::running(database)?.ok_or(StoreError::NoRollout)?;
            rollout::end(database, author, &running, "done", "rolled out to all")?;
            Ok(running.revision)
        })
    }

    /// Ends a roll-out: the next revision is what was there before it.
    pub fn roll_back(&mut self, author: Author<'_>, why: &str) -> Result<Revision, StoreError> {
        let place = self.place.clone();
        self.change(|database| {
            let running = rollout::running(database)?.ok_or(StoreError::NoRollout)?;
            let before = find(&place, database, running.revision - 1)?.ok_or(StoreError::NoRollout)?;
            let revision = Revision {
                number: running.revision + 1,
                at: author.at,
                by: author.by.to_owned(),
                note: format!("back to revision {}: {why}", before.number),
                ..before
            };
            insert(database, &revision)?;
            rollout::end(database, author, &running, "returned", &format!("took back ({why})"))?;
            Ok(revision)
        })
    }

    /// How many changes there were. Larger after each.
    pub fn sequence(&mut self) -> Result<u64, StoreError> {
        self.ask(|database| database.number("SELECT COALESCE(MAX(sequence), 0) FROM events", &[]))
    }

    /// Changes after the one of this number, at most so many.
    pub fn events(&mut self, after: u64, limit: u32) -> Result<Vec<Event>, StoreError> {
        let query =
            "SELECT sequence, at, by, what FROM events WHERE sequence > $1 ORDER BY sequence LIMIT $2";
        let event = |mut row: Row| Event {
            sequence: row.number(0),
            at: row.number(1),
            by: row.text(2),
            what: row.text(3),
        };
        self.list(query, &[after.into(), u64::from(limit).into()], event)
    }

    /// A setting of the controller.
    pub fn setting(&mut self, name: &str) -> Result<Option<String>, StoreError> {
        let query = "SELECT value FROM settings WHERE name = $1";
        self.list(query, &[name.into()], |mut row| row.text(0)).map(|values| values.into_iter().next())
    }

    /// Keeps settings of the controller, all of them or none.
    pub fn set(&mut self, settings: &[(&str, &str)]) -> Result<(), StoreError> {
        self.change(|database| {
            let set = "INSERT INTO settings (name, value) VALUES ($1, $2) \
                       ON CONFLICT (name) DO UPDATE SET value = excluded.value";
            for (name, value) in settings {
                database.execute(set, &[(*name).into(), (*value).into()])?;
            }
            Ok(())
        })
    }

    /// Makes a token of somebody.
    pub fn add_token(
        &mut self,
        author: Author<'_>,
        name: &str,
        role: Role,
        secret: &str,
    ) -> Result<(), StoreError> {
        self.change(|database| {
            if database.number("SELECT COUNT(*) FROM tokens WHERE name = $1", &[name.into()])? > 0 {
                return Err(Failed::Refused(StoreError::There { what: "token", name: name.to_owned() }));
            }
            let insert = "INSERT INTO tokens (digest, name, role) VALUES ($1, $2, $3)";
            database.execute(insert, &[(&digest_of(secret)).into(), name.into(), role.word().into()])?;
            Ok(record(database, author, &format!("made token {name}, {}", role.word()))?)
        })
    }

    /// Removes a token.
    pub fn remove_token(&mut self, author: Author<'_>, name: &str) -> Result<(), StoreError> {
        self.remove("DELETE FROM tokens WHERE name = $1", author, "token", name)
    }

    /// Forgets a site: its token is none any more, and other sites no longer have it as a peer.
    pub fn expel(&mut self, author: Author<'_>, site: &str) -> Result<(), StoreError> {
        self.remove("DELETE FROM sites WHERE name = $1", author, "enrolled site", site)
    }

    fn remove(
        &mut self,
        delete: &str,
        author: Author<'_>,
        what: &'static str,
        name: &str,
    ) -> Result<(), StoreError> {
        self.change(|database| {
            if database.execute(delete, &[name.into()])? == 0 {
                return Err(Failed::Refused(StoreError::Unknown { what, name: name.to_owned() }));
            }
            Ok(record(database, author, &format!("removed {what} {name}"))?)
        })
    }

    /// Invites a site to enrol, once.
    pub fn invite(
        &mut self,
        author: Author<'_>,
        site: &str,
        secret: &str,
        expires_at: u64,
    ) -> Result<(), StoreError> {
        self.change(|database| {
            // Those that nobody used are forgotten in time.
            database.execute("DELETE FROM invitations WHERE expires_at < $1", &[author.at.into()])?;
            let insert = "INSERT INTO invitations (digest, site, expires_at) VALUES ($1, $2, $3)";
            database.execute(insert, &[(&digest_of(secret)).into(), site.into(), expires_at.into()])?;
            Ok(record(database, author, &format!("invited site {site}"))?)
        })
    }

    /// Enrols a site by its invitation, which is used up: the name of the site. One that has enrolled before has the new key from now on.
    pub fn enrol(
        &mut self,
        at: u64,
        invitation: &str,
        public_key: &str,
        token: &str,
    ) -> Result<String, StoreError> {
        self.change(|database| {
            let digest = digest_of(invitation);
            let find = "SELECT site, expires_at FROM invitations WHERE digest = $1";
            let Some(mut found) = database.query(find, &[(&digest).into()])?.pop() else {
                return Err(Failed::Refused(StoreError::Invitation("is unknown, or was used")));
            };
            let site = found.text(0);
            if found.number(1) < at {
                return Err(Failed::Refused(StoreError::Invitation("has expired")));
            }
            let other = "SELECT name FROM sites WHERE public_key = $1 AND name <> $2";
            if let Some(mut other) = database.query(other, &[public_key.into(), (&site).into()])?.pop() {
                return Err(Failed::Refused(StoreError::KnownKey(other.text(0))));
            }
            database.execute("DELETE FROM invitations WHERE digest = $1", &[(&digest).into()])?;
            let enrol = "INSERT INTO sites (name, public_key, enrolled_at, token) VALUES ($1, $2, $3, $4) \
                         ON CONFLICT (name) DO UPDATE SET public_key = excluded.public_key, \
                         enrolled_at = excluded.enrolled_at, token = excluded.token";
            let values = [(&site).into(), public_key.into(), at.into(), Value::Text(&digest_of(token))];
            database.execute(enrol, &values)?;
            let author = Author { by: &site, at };
            record(database, author, &format!("enrolled with key {public_key}"))?;
            Ok(site)
        })
    }

    /// The sites that have enrolled.
    pub fn members(&mut self) -> Result<Vec<Member>, StoreError> {
        let query = "SELECT name, public_key, enrolled_at FROM sites";
        let mut members = self.list(query, &[], |mut row| Member {
            name: row.text(0),
            public_key: row.text(1),
            enrolled_at: row.number(2),
        })?;
        // By their bytes, whatever a database's collation is.
        members.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(members)
    }

    /// Who holds which token, by its digest.
    pub fn holders(&mut self) -> Result<BTreeMap<String, Holder>, StoreError> {
        let sites = self
            .list("SELECT token, name FROM sites", &[], |mut row| (row.text(0), Holder::Site(row.text(1))))?;
        let people = self.list("SELECT digest, name, role FROM tokens", &[], |mut row| {
            let word = row.text(2);
            let role = Role::WORDS.into_iter().find(|(known, _)| *known == word);
            let role = role.map_or(Role::Viewer, |(_, role)| role);
            (row.text(0), Holder::Person { name: row.text(1), role })
        })?;
        Ok(sites.into_iter().chain(people).collect())
    }

    fn list<T>(
        &mut self,
        query: &str,
        values: &[Value<'_>],
        read: impl FnMut(Row) -> T,
    ) -> Result<Vec<T>, StoreError> {
        self.ask(|database| Ok(database.query(query, values)?.into_iter().map(read).collect()))
    }

    fn ask<T>(
        &mut self,
        ask: impl FnOnce(&mut Database) -> Result<T, DatabaseError>,
    ) -> Result<T, StoreError> {
        ask(&mut self.database).map_err(|error| error.at(&self.place))
    }

    /// Changes something in one transaction.
    fn change<T>(
        &mut self,
        change: impl FnOnce(&mut Database) -> Result<T, Failed>,
    ) -> Result<T, StoreError> {
        self.database.transaction(change).map_err(|error| match error {
            Failed::Database(error) => error.at(&self.place),
            Failed::Refused(error) => error,
        })
    }
}

/// Why a change is none.
enum Failed {
    Database(DatabaseError),
    Refused(StoreError),
}

impl From<DatabaseError> for Failed {
    fn from(error: DatabaseError) -> Self {
        Failed::Database(error)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Failed::Refused(error)
    }
}

fn document_of(revision: Option<&Revision>) -> &str {
    revision.map_or("", |revision| &revision.document)
}

fn latest_number(database: &mut Database) -> Result<u64, DatabaseError> {
    database.number("SELECT COALESCE(MAX(number), 0) FROM revisions", &[])
}

fn latest(place: &Place, database: &mut Database) -> Result<Option<Revision>, StoreError> {
    read(place, database, "ORDER BY number DESC LIMIT 1", &[])
}

fn find(place: &Place, database: &mut Database, number: u64) -> Result<Option<Revision>, StoreError> {
    read(place, database, "WHERE number = $1", &[number.into()])
}

fn read(
    place: &Place,
    database: &mut Database,
    which: &str,
    values: &[Value<'_>],
) -> Result<Option<Revision>, StoreError> {
    let query = format!("SELECT {COLUMNS} FROM revisions {which}");
    let row = database.query(&query, values).map_err(|error| error.at(place))?.pop();
    let Some(mut row) = row else { return Ok(None) };
    let number = row.number(0);
    let plan = Plan::parse(&row.text(5));
    let plan = plan.map_err(|error| StoreError::Plan { place: place.clone(), number, error })?;
    let (at, by, note, document) = (row.number(1), row.text(2), row.text(3), row.text(4));
    Ok(Some(Revision { number, at, by, note, document, plan }))
}

fn insert(database: &mut Database, revision: &Revision) -> Result<(), DatabaseError> {
    let Revision { number, at, by, note, document, plan } = revision;
    let insert = format!("INSERT INTO revisions ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6)");
    let plan = plan.to_json();
    let values =
        [(*number).into(), (*at).into(), by.into(), note.into(), document.into(), Value::Text(&plan)];
    database.execute(&insert, &values).map(drop)
}
