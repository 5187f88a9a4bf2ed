CREATE SCHEMA trunkline;
CREATE TABLE trunkline.version (number BIGINT NOT NULL);
CREATE TABLE trunkline.revisions (
    number BIGINT PRIMARY KEY CHECK (number > 0),
    applied_at BIGINT NOT NULL,
    applied_by TEXT NOT NULL,
    note TEXT NOT NULL,
    document TEXT NOT NULL,
    plan TEXT NOT NULL
);
CREATE TABLE trunkline.events (
    sequence BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at BIGINT NOT NULL,
    by TEXT NOT NULL,
    what TEXT NOT NULL
);
CREATE TABLE trunkline.sites (
    name TEXT PRIMARY KEY,
    public_key TEXT NOT NULL UNIQUE,
    enrolled_at BIGINT NOT NULL,
    token TEXT NOT NULL UNIQUE
);
CREATE TABLE trunkline.invitations (
    digest TEXT PRIMARY KEY,
    site TEXT NOT NULL,
    expires_at BIGINT NOT NULL
);
CREATE TABLE trunkline.tokens (
    digest TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('admin', 'viewer'))
);
CREATE TABLE trunkline.settings (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE trunkline.rollouts (
    revision BIGINT PRIMARY KEY REFERENCES trunkline.revisions (number),
    steps TEXT NOT NULL,
    wait_s BIGINT NOT NULL,
    step BIGINT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'returned'))
);

CREATE FUNCTION trunkline.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN RAISE EXCEPTION '% are never changed or removed', TG_TABLE_NAME; END $$;
CREATE FUNCTION trunkline.no_gap() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.number <> (SELECT COALESCE(MAX(number), 0) + 1 FROM trunkline.revisions) THEN
        RAISE EXCEPTION 'revisions follow each other';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER no_gap BEFORE INSERT ON trunkline.revisions FOR EACH ROW EXECUTE FUNCTION trunkline.no_gap();
CREATE TRIGGER stays BEFORE UPDATE OR DELETE OR TRUNCATE ON trunkline.revisions
    FOR EACH STATEMENT EXECUTE FUNCTION trunkline.refuse();
CREATE TRIGGER stays BEFORE UPDATE OR DELETE OR TRUNCATE ON trunkline.events
    FOR EACH STATEMENT EXECUTE FUNCTION trunkline.refuse();
