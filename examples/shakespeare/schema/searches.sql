-- lehr: database sqlite:/var/lib/shakespeare/searches.db
-- lehr: version 1

-- What people searched for.
CREATE TABLE searches (
    id    INTEGER PRIMARY KEY,
    at    TEXT NOT NULL,
    words TEXT NOT NULL
);

CREATE INDEX searches_at ON searches (at);

CREATE VIEW popular AS
SELECT words, count(*) AS times FROM searches GROUP BY words;
