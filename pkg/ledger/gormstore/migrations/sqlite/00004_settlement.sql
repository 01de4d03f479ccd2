-- Both books of a day are compared: the runs that do so, and what they find.

-- +goose Up
CREATE TABLE settlement_runs (
    run_id            TEXT PRIMARY KEY CHECK (length(run_id) BETWEEN 1 AND 64),
    business_date     TEXT NOT NULL,
    state             TEXT NOT NULL,
    scheduled         INTEGER NOT NULL CHECK (scheduled IN (0, 1)),
    instance          TEXT NOT NULL CHECK (length(instance) <= 100),
    match_count       INTEGER NOT NULL,
    mismatch_count    INTEGER NOT NULL,
    ledger_only_count INTEGER NOT NULL,
    core_only_count   INTEGER NOT NULL,
    unresolved_count  INTEGER NOT NULL,
    unreadable_count  INTEGER NOT NULL,
    records_read      INTEGER NOT NULL,
    started_at        TEXT NOT NULL,
    finished_at       TEXT,
    lease_until       TEXT,
    error             TEXT NOT NULL CHECK (length(error) <= 300),

    CONSTRAINT run_state CHECK (
        CASE state
        WHEN 'RUNNING' THEN finished_at IS NULL AND lease_until IS NOT NULL AND error = ''
        WHEN 'SUCCEEDED' THEN finished_at IS NOT NULL AND lease_until IS NULL AND error = ''
        WHEN 'FAILED' THEN finished_at IS NOT NULL AND lease_until IS NULL AND error <> ''
        ELSE false END),
    CONSTRAINT run_counts CHECK (
        match_count >= 0 AND mismatch_count >= 0 AND ledger_only_count >= 0 AND core_only_count >= 0
        AND unresolved_count >= 0 AND unreadable_count >= 0 AND records_read >= 0),
    CONSTRAINT run_day CHECK (business_date = date(business_date)),
    CONSTRAINT run_times CHECK (
        started_at GLOB
            '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'
        AND (finished_at IS NULL OR finished_at GLOB
            '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
        AND (lease_until IS NULL OR lease_until GLOB
            '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'))
) STRICT;
-- One live run of a day, and one scheduled one that need not be done again.
CREATE UNIQUE INDEX settlement_runs_live ON settlement_runs (business_date) WHERE state = 'RUNNING';
CREATE UNIQUE INDEX settlement_runs_scheduled ON settlement_runs (business_date)
    WHERE scheduled AND state IN ('RUNNING', 'SUCCEEDED');
CREATE INDEX settlement_runs_listed ON settlement_runs (started_at DESC, run_id DESC);
CREATE INDEX settlement_runs_of_day ON settlement_runs (business_date, started_at DESC, run_id DESC);

-- +goose StatementBegin
CREATE TRIGGER ended_runs_stay_as_they_are BEFORE UPDATE ON settlement_runs
WHEN OLD.state <> 'RUNNING'
BEGIN
    SELECT RAISE(ABORT, 'a run that has ended never changes');
END;
-- +goose StatementEnd

-- A transaction has one at most. What no run found has no run_id.
CREATE TABLE settlement_discrepancies (
    business_date  TEXT NOT NULL,
    transaction_id TEXT NOT NULL,
    run_id         TEXT REFERENCES settlement_runs,
    class          TEXT NOT NULL,
    state          TEXT NOT NULL,
    ledger_status  TEXT NOT NULL,
    ledger_amount  INTEGER NOT NULL,
    core_state     TEXT NOT NULL,
    core_amount    INTEGER NOT NULL,
    note           TEXT NOT NULL CHECK (length(note) <= 500),
    noted_by       TEXT NOT NULL CHECK (length(noted_by) <= 100),
    found_at       TEXT NOT NULL,
    closed_at      TEXT,

    PRIMARY KEY (business_date, transaction_id),

    CONSTRAINT discrepancy_id CHECK (
        length(transaction_id) = 22 AND substr(transaction_id, 1, 5) = 'GWMNU'
        AND substr(transaction_id, 6) NOT GLOB '*[^0-9]*'
        AND business_date = substr(transaction_id, 6, 4) || '-' || substr(transaction_id, 10, 2) || '-'
                            || substr(transaction_id, 12, 2)
        AND business_date = date(business_date)),
    CONSTRAINT discrepancy_class CHECK (
        CASE class
        WHEN 'MISMATCH' THEN ledger_status IN ('SUCCESS', 'FAILED', 'CANCELED') AND core_state IN ('00', '99')
        WHEN 'LEDGER_ONLY' THEN ledger_status = 'SUCCESS' AND core_state = ''
        WHEN 'CORE_ONLY' THEN ledger_status IN ('', 'FAILED', 'CANCELED') AND core_state = '00'
        WHEN 'UNRESOLVED' THEN ledger_status IN ('REQUESTED', 'UNKNOWN') AND core_state IN ('', '00', '99')
        ELSE false END),
    CONSTRAINT discrepancy_amounts CHECK (
        ledger_amount BETWEEN 0 AND 999999999999 AND (ledger_status = '') = (ledger_amount = 0)
        AND core_amount BETWEEN 0 AND 999999999999 AND (core_state <> '' OR core_amount = 0)),
    CONSTRAINT discrepancy_state CHECK (
        state IN ('OPEN', 'NOTED', 'CLOSED') AND (state = 'CLOSED') = (closed_at IS NOT NULL)
        AND (state <> 'NOTED' OR note <> '') AND (note = '') = (noted_by = '')),
    CONSTRAINT discrepancy_times CHECK (
        found_at GLOB
            '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'
        AND (closed_at IS NULL OR closed_at GLOB
            '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'))
) STRICT;
CREATE INDEX settlement_discrepancies_listed ON settlement_discrepancies (found_at DESC, transaction_id DESC);
CREATE INDEX settlement_discrepancies_of_run ON settlement_discrepancies (run_id, found_at DESC, transaction_id DESC);
CREATE INDEX settlement_discrepancies_in_state ON settlement_discrepancies (state, found_at DESC, transaction_id DESC, class);
CREATE INDEX settlement_discrepancies_unclosed ON settlement_discrepancies (business_date, transaction_id)
    WHERE state IN ('OPEN', 'NOTED');
