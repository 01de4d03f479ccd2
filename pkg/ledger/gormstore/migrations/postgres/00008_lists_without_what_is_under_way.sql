-- The indexes of lists hold what has left REQUESTED, and nothing else. Nearly every
-- row is REQUESTED for a moment: it was entered into each of them, and once more when
-- it left, and the first entry was to be cleared away. Lists look for what is
-- REQUESTED apart, by transactions_abandoned.
--
-- They ascend, and lists read them from the end: PostgreSQL splits a page that grows
-- at its end so that the first half stays full, and finds the last page of an index
-- without a search.
--
-- Payments go on meanwhile, which is why this is no transaction. What is cut short
-- begins anew.

-- +goose NO TRANSACTION
-- +goose Up

-- What waits here keeps nobody waiting, so that it may wait for a long report.
SET lock_timeout = 0;

DROP INDEX CONCURRENTLY IF EXISTS transactions_by_time;
DROP INDEX CONCURRENTLY IF EXISTS transactions_by_client;
DROP INDEX CONCURRENTLY IF EXISTS transactions_by_account;
DROP INDEX CONCURRENTLY IF EXISTS transactions_by_correlation;
DROP INDEX CONCURRENTLY IF EXISTS transactions_by_order;

CREATE INDEX CONCURRENTLY transactions_by_time ON transactions (requested_at, transaction_id)
    WHERE status <> 'REQUESTED';
CREATE INDEX CONCURRENTLY transactions_by_client ON transactions (client_id, requested_at, transaction_id)
    WHERE status <> 'REQUESTED';
CREATE INDEX CONCURRENTLY transactions_by_account ON transactions (account_hash, requested_at, transaction_id)
    WHERE status <> 'REQUESTED';
CREATE INDEX CONCURRENTLY transactions_by_correlation ON transactions (correlation_id, requested_at, transaction_id)
    WHERE correlation_id <> '' AND status <> 'REQUESTED';
CREATE INDEX CONCURRENTLY transactions_by_order ON transactions (order_id, requested_at, transaction_id)
    WHERE order_id <> '' AND status <> 'REQUESTED';

DROP INDEX CONCURRENTLY IF EXISTS transactions_listed;
DROP INDEX CONCURRENTLY IF EXISTS transactions_of_client;
DROP INDEX CONCURRENTLY IF EXISTS transactions_of_account;
DROP INDEX CONCURRENTLY IF EXISTS transactions_of_correlation;
DROP INDEX CONCURRENTLY IF EXISTS transactions_of_order;

RESET lock_timeout;
