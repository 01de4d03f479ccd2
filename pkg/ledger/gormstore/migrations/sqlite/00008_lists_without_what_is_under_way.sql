-- What this version changes concerns PostgreSQL alone; a version is one and the same
-- book in both.

-- +goose Up
SELECT 1;
