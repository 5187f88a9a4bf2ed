CREATE TABLE events (
        sequence INTEGER PRIMARY KEY AUTOINCREMENT,
        at INTEGER NOT NULL,
        by TEXT NOT NULL,
        what TEXT NOT NULL
    ) STRICT;
INSERT INTO "events" VALUES(1,1795983098,'anna','applied revision 1');
INSERT INTO "events" VALUES(2,1795983098,'anna','applied revision 2');
INSERT INTO "events" VALUES(3,1795983098,'uid 0','made token anna, admin');
INSERT INTO "events" VALUES(4,1800000000,'a','enrolled with key key');
CREATE TABLE invitations (
        digest TEXT PRIMARY KEY,
        site TEXT NOT NULL,
        expires_at INTEGER NOT NULL
    ) STRICT;
CREATE TABLE revisions (
        number INTEGER PRIMARY KEY CHECK (number > 0),
        applied_at INTEGER NOT NULL,
        applied_by TEXT NOT NULL,
        note TEXT NOT NULL,
        document TEXT NOT NULL,
        plan TEXT NOT NULL
    ) STRICT;
INSERT INTO "revisions" VALUES(1,1795983098,'anna','','[sites.a.uplinks.line]
up = "100 Mbit/s"
down = "100 Mbit/s"
[sites.b.uplinks.line]
up = "100 Mbit/s"
down = "100 Mbit/s"
[trunks.one]
sites = ["a", "b"]
guarantee = "10 Mbit/s"
','{
  "version": 1,
  "trunks": [
    {
      "name": "one",
      "sites": [
        "a",
        "b"
      ],
      "guarantee": {
        "forth": 10000000,
        "back": 10000000
      },
      "change": "new",
      "asks_backup": false,
      "way": [
        "a/line",
        "b/line"
      ],
      "backup": null,
      "refused": null
    }
  ],
  "removed": [],
  "links": [
    {
      "name": "a/line",
      "ends": [
        "a",
        "core"
      ],
      "reservable": {
        "forth": 90000000,
        "back": 90000000
      },
      "reserved": {
        "forth": 10000000,
        "back": 10000000
      }
    },
    {
      "name": "b/line",
      "ends": [
        "b",
        "core"
      ],
      "reservable": {
        "forth": 90000000,
        "back": 90000000
      },
      "reserved": {
        "forth": 10000000,
        "back": 10000000
      }
    }
  ]
}');
INSERT INTO "revisions" VALUES(2,1795983098,'anna','more','[sites.a.uplinks.line]
up = "100 Mbit/s"
down = "100 Mbit/s"
[sites.b.uplinks.line]
up = "100 Mbit/s"
down = "100 Mbit/s"
[trunks.one]
sites = ["a", "b"]
guarantee = "30 Mbit/s"
','{
  "version": 1,
  "trunks": [
    {
      "name": "one",
      "sites": [
        "a",
        "b"
      ],
      "guarantee": {
        "forth": 30000000,
        "back": 30000000
      },
      "change": "kept",
      "asks_backup": false,
      "way": [
        "a/line",
        "b/line"
      ],
      "backup": null,
      "refused": null
    }
  ],
  "removed": [],
  "links": [
    {
      "name": "a/line",
      "ends": [
        "a",
        "core"
      ],
      "reservable": {
        "forth": 90000000,
        "back": 90000000
      },
      "reserved": {
        "forth": 30000000,
        "back": 30000000
      }
    },
    {
      "name": "b/line",
      "ends": [
        "b",
        "core"
      ],
      "reservable": {
        "forth": 90000000,
        "back": 90000000
      },
      "reserved": {
        "forth": 30000000,
        "back": 30000000
      }
    }
  ]
}');
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE sites (
        name TEXT PRIMARY KEY,
        public_key TEXT NOT NULL UNIQUE,
        enrolled_at INTEGER NOT NULL,
        token TEXT NOT NULL UNIQUE
    ) STRICT;
INSERT INTO "sites" VALUES('a','key',1800000000,'token');
CREATE TABLE tokens (
        digest TEXT PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        role TEXT NOT NULL CHECK (role IN ('admin', 'viewer'))
    ) STRICT;
INSERT INTO "tokens" VALUES('KfijKzak5iKEXwuusC38dcR_oq3PCI437oATvbYoorg','anna','admin');
CREATE TRIGGER no_gap BEFORE INSERT ON revisions
        WHEN NEW.number <> (SELECT COALESCE(MAX(number), 0) + 1 FROM revisions)
        BEGIN SELECT RAISE(ABORT, 'revisions follow each other'); END;
CREATE TRIGGER no_update BEFORE UPDATE ON revisions BEGIN SELECT RAISE(ABORT, 'revisions are never changed'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON revisions BEGIN SELECT RAISE(ABORT, 'revisions are never removed'); END;
CREATE TRIGGER no_event_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER no_event_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are never removed'); END;
PRAGMA application_id = 0x54726b6c;
PRAGMA user_version = 1;
