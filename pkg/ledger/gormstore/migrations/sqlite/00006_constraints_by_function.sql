-- Of what this version changes, all but this concerns PostgreSQL alone; a version
-- is one and the same book in both.

-- +goose Up
-- +goose StatementBegin
CREATE TRIGGER rows_keep_their_ids BEFORE UPDATE OF business_date, transaction_id ON transactions
WHEN OLD.business_date <> NEW.business_date OR OLD.transaction_id <> NEW.transaction_id
BEGIN
    SELECT RAISE(ABORT, 'a row keeps its ID');
END;
-- +goose StatementEnd
