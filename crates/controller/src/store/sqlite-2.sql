CREATE TABLE rollouts (
    revision INTEGER PRIMARY KEY REFERENCES revisions (number),
    steps TEXT NOT NULL,
    wait_s INTEGER NOT NULL,
    step INTEGER NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'done', 'returned'))
) STRICT;
