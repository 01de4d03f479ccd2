-- How many payments of a client are not known: counted by those that are, however
-- large the book is.

-- +goose Up
CREATE INDEX transactions_unknown_of_clients ON transactions (client_id)
    WHERE status = 'UNKNOWN' AND kind = 'PAYMENT';
