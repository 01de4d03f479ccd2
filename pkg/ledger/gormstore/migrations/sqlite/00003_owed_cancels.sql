-- What an operator settled and the core still has to be told of.

-- +goose Up
CREATE INDEX transactions_owed ON transactions (next_resolve_at, transaction_id)
    WHERE evidence = 'OPERATOR' AND next_resolve_at IS NOT NULL;
