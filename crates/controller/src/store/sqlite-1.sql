CREATE TABLE revisions (
    number INTEGER PRIMARY KEY CHECK (number > 0),
    applied_at INTEGER NOT NULL,
    applied_by TEXT NOT NULL,
    note TEXT NOT NULL,
    document TEXT NOT NULL,
    plan TEXT NOT NULL
) STRICT;
CREATE TRIGGER no_gap BEFORE INSERT ON revisions
    WHEN NEW.number <> (SELECT COALESCE(MAX(number), 0) + 1 FROM revisions)
    BEGIN SELECT RAISE(ABORT, 'revisions follow each other'); END;
CREATE TRIGGER no_update BEFORE UPDATE ON revisions BEGIN SELECT RAISE(ABORT, 'revisions are never changed'); END;
CREATE TRIGGER no_delete BEFORE DELETE ON revisions BEGIN SELECT RAISE(ABORT, 'revisions are never removed'); END;
CREATE TABLE events (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    by TEXT NOT NULL,
    what TEXT NOT NULL
) STRICT;
CREATE TRIGGER no_event_update BEFORE UPDATE ON events BEGIN SELECT RAISE(ABORT, 'events are never changed'); END;
CREATE TRIGGER no_event_delete BEFORE DELETE ON events BEGIN SELECT RAISE(ABORT, 'events are never removed'); END;
CREATE TABLE sites (
    name TEXT PRIMARY KEY,
    public_key TEXT NOT NULL UNIQUE,
    enrolled_at INTEGER NOT NULL,
    token TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE invitations (
    digest TEXT PRIMARY KEY,
    site TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE TABLE tokens (
    digest TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('admin', 'viewer'))
) STRICT;
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
