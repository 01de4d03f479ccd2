-- Orders that are paid once, keys that end, days that leave the book.

-- +goose Up

-- Of an order, at most one payment is REQUESTED, UNKNOWN or SUCCESS: that one.
CREATE TABLE order_guards (
    client_id      TEXT NOT NULL CHECK (length(client_id) BETWEEN 1 AND 64),
    order_id       TEXT NOT NULL CHECK (length(order_id) BETWEEN 1 AND 64),
    business_date  TEXT NOT NULL,
    transaction_id TEXT NOT NULL,

    PRIMARY KEY (client_id, order_id)
) STRICT, WITHOUT ROWID;

-- A key may be bound again from then on, if its transaction is final. SQLite adds
-- no column that must be set, so the table is made anew.
CREATE TABLE idempotency_keys_2 (
    client_id       TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    fingerprint     BLOB NOT NULL CHECK (length(fingerprint) = 32),
    business_date   TEXT NOT NULL,
    transaction_id  TEXT NOT NULL,
    created_at      TEXT NOT NULL,
    expires_at      TEXT NOT NULL,

    PRIMARY KEY (client_id, idempotency_key),
    FOREIGN KEY (business_date, transaction_id) REFERENCES transactions DEFERRABLE INITIALLY DEFERRED
) STRICT;
INSERT INTO idempotency_keys_2
SELECT client_id, idempotency_key, fingerprint, business_date, transaction_id, created_at,
       strftime('%Y-%m-%dT%H:%M:%S', created_at, '+24 hours') || substr(created_at, 20)
FROM idempotency_keys;
DROP TABLE idempotency_keys;
ALTER TABLE idempotency_keys_2 RENAME TO idempotency_keys;
CREATE INDEX idempotency_keys_expiring ON idempotency_keys (expires_at);
CREATE INDEX idempotency_keys_of ON idempotency_keys (business_date, transaction_id);

-- The days whose rows may be deleted, and are.
CREATE TABLE retired_days (
    business_date TEXT PRIMARY KEY,
    begun_at      TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- +goose StatementBegin
DROP TRIGGER events_are_not_deleted;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON transaction_events
WHEN NOT EXISTS (SELECT 1 FROM retired_days WHERE business_date = OLD.business_date)
BEGIN
    SELECT RAISE(ABORT, 'events are only ever appended');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER rows_are_not_deleted BEFORE DELETE ON transactions
WHEN NOT EXISTS (SELECT 1 FROM retired_days WHERE business_date = OLD.business_date)
BEGIN
    SELECT RAISE(ABORT, 'rows leave the book with their day');
END;
-- +goose StatementEnd
