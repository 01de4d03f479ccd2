-- Both books of a day are compared: the runs that do so, and what they find.

-- +goose Up
CREATE TABLE settlement_runs (
    run_id            text COLLATE "C" PRIMARY KEY CHECK (char_length(run_id) BETWEEN 1 AND 64),
    business_date     date NOT NULL,
    state             text NOT NULL,
    scheduled         boolean NOT NULL,
    instance          text NOT NULL CHECK (char_length(instance) <= 100),
    match_count       bigint NOT NULL,
    mismatch_count    bigint NOT NULL,
    ledger_only_count bigint NOT NULL,
    core_only_count   bigint NOT NULL,
    unresolved_count  bigint NOT NULL,
    unreadable_count  bigint NOT NULL,
    records_read      bigint NOT NULL,
    started_at        timestamptz NOT NULL,
    finished_at       timestamptz,
    lease_until       timestamptz,
    error             text NOT NULL CHECK (char_length(error) <= 300),

    CONSTRAINT run_state CHECK (
        CASE state
        WHEN 'RUNNING' THEN finished_at IS NULL AND lease_until IS NOT NULL AND error = ''
        WHEN 'SUCCEEDED' THEN finished_at IS NOT NULL AND lease_until IS NULL AND error = ''
        WHEN 'FAILED' THEN finished_at IS NOT NULL AND lease_until IS NULL AND error <> ''
        ELSE false END),
    CONSTRAINT run_counts CHECK (
        match_count >= 0 AND mismatch_count >= 0 AND ledger_only_count >= 0 AND core_only_count >= 0
        AND unresolved_count >= 0 AND unreadable_count >= 0 AND records_read >= 0)
);
-- One live run of a day, and one scheduled one that need not be done again.
CREATE UNIQUE INDEX settlement_runs_live ON settlement_runs (business_date) WHERE state = 'RUNNING';
CREATE UNIQUE INDEX settlement_runs_scheduled ON settlement_runs (business_date)
    WHERE scheduled AND state IN ('RUNNING', 'SUCCEEDED');
CREATE INDEX settlement_runs_listed ON settlement_runs (started_at DESC, run_id DESC);
CREATE INDEX settlement_runs_of_day ON settlement_runs (business_date, started_at DESC, run_id DESC);

CREATE TRIGGER ended_runs_stay_as_they_are BEFORE UPDATE ON settlement_runs
    FOR EACH ROW WHEN (OLD.state <> 'RUNNING')
    EXECUTE FUNCTION gwanmun_refuse('a run that has ended never changes');

-- A transaction has one at most. What no run found has no run_id.
CREATE TABLE settlement_discrepancies (
    business_date  date NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,
    run_id         text COLLATE "C" REFERENCES settlement_runs,
    class          text NOT NULL,
    state          text NOT NULL,
    ledger_status  text NOT NULL,
    ledger_amount  bigint NOT NULL,
    core_state     text NOT NULL,
    core_amount    bigint NOT NULL,
    note           text NOT NULL CHECK (char_length(note) <= 500),
    noted_by       text NOT NULL CHECK (char_length(noted_by) <= 100),
    found_at       timestamptz NOT NULL,
    closed_at      timestamptz,

    PRIMARY KEY (business_date, transaction_id),

    CONSTRAINT discrepancy_id CHECK (
        CASE WHEN transaction_id ~ '^GWMNU[0-9]{17}$'
        THEN business_date = make_date(substr(transaction_id, 6, 4)::int, substr(transaction_id, 10, 2)::int,
                                       substr(transaction_id, 12, 2)::int)
        ELSE false END),
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
        AND (state <> 'NOTED' OR note <> '') AND (note = '') = (noted_by = ''))
);
CREATE INDEX settlement_discrepancies_listed ON settlement_discrepancies (found_at DESC, transaction_id DESC);
CREATE INDEX settlement_discrepancies_of_run ON settlement_discrepancies (run_id, found_at DESC, transaction_id DESC);
CREATE INDEX settlement_discrepancies_in_state ON settlement_discrepancies (state, found_at DESC, transaction_id DESC, class);
CREATE INDEX settlement_discrepancies_unclosed ON settlement_discrepancies (business_date, transaction_id)
    WHERE state IN ('OPEN', 'NOTED');
