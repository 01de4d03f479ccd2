-- Orders that are paid once, keys that end, days that leave the book.

-- +goose Up

-- Of an order, at most one payment is REQUESTED, UNKNOWN or SUCCESS: that one.
CREATE TABLE order_guards (
    client_id      text NOT NULL CHECK (char_length(client_id) BETWEEN 1 AND 64),
    order_id       text NOT NULL CHECK (char_length(order_id) BETWEEN 1 AND 64),
    business_date  date NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,

    PRIMARY KEY (client_id, order_id)
);

-- A key may be bound again from then on, if its transaction is final.
ALTER TABLE idempotency_keys ADD COLUMN expires_at timestamptz;
UPDATE idempotency_keys SET expires_at = created_at + interval '24 hours';
ALTER TABLE idempotency_keys ALTER COLUMN expires_at SET NOT NULL;
CREATE INDEX idempotency_keys_expiring ON idempotency_keys (expires_at);
CREATE INDEX idempotency_keys_of ON idempotency_keys (business_date, transaction_id);

-- The days whose rows may be deleted, and are.
CREATE TABLE retired_days (
    business_date date PRIMARY KEY,
    begun_at      timestamptz NOT NULL
);

-- +goose StatementBegin
CREATE FUNCTION gwanmun_refuse_unless_retired() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM retired_days WHERE business_date = OLD.business_date) THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
END
$$;
-- +goose StatementEnd

DROP TRIGGER events_are_appended_only ON transaction_events;
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON transaction_events
    FOR EACH ROW EXECUTE FUNCTION gwanmun_refuse('events are only ever appended');
CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON transaction_events
    FOR EACH ROW EXECUTE FUNCTION gwanmun_refuse_unless_retired('events are only ever appended');
CREATE TRIGGER rows_are_not_deleted BEFORE DELETE ON transactions
    FOR EACH ROW EXECUTE FUNCTION gwanmun_refuse_unless_retired('rows leave the book with their day');
CREATE TRIGGER rows_are_never_truncated BEFORE TRUNCATE ON transactions
    FOR EACH STATEMENT EXECUTE FUNCTION gwanmun_refuse('rows leave the book with their day');
