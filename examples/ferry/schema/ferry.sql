CREATE TABLE ships (
    name text PRIMARY KEY,
    places integer NOT NULL CHECK (places > 0)
);
CREATE TABLE departures (
    id bigint PRIMARY KEY,
    ship text NOT NULL REFERENCES ships (name),
    pier text NOT NULL,
    leaves_at timestamptz NOT NULL
);
CREATE TABLE bookings (
    id bigint PRIMARY KEY,
    departure bigint NOT NULL REFERENCES departures (id),
    customer text NOT NULL,
    places integer NOT NULL CHECK (places > 0),
    paid_at timestamptz
);
CREATE INDEX bookings_of_departures ON bookings (departure);
