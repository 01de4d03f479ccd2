-- The ledger: what was asked of the core, what is known of it, and how that came
-- to be. The CHECKs of transactions bear the names of the invariants in package
-- ledger and say the same; those of decision and standing hold the states of an
-- operator's settlement too. SQLite has no type for time: times are TEXT in UTC
-- with microseconds, in one fixed width, so that they sort.

-- +goose Up
CREATE TABLE hash_key_check (
    id          INTEGER PRIMARY KEY CHECK (id = 1),
    check_value BLOB NOT NULL CHECK (length(check_value) = 32)
) STRICT;

-- What is written to find out whether anything can be, after a write has failed.
CREATE TABLE write_probe (
    id     INTEGER PRIMARY KEY CHECK (id = 1),
    filler BLOB NOT NULL
) STRICT;
INSERT INTO write_probe (id, filler) VALUES (1, x'');

CREATE TABLE tranid_blocks (
    business_date TEXT PRIMARY KEY,
    next_number   INTEGER NOT NULL CHECK (next_number BETWEEN 0 AND 1000000000)
) STRICT;

CREATE TABLE transactions (
    business_date     TEXT NOT NULL,
    transaction_id    TEXT NOT NULL,
    kind              TEXT NOT NULL,
    status            TEXT NOT NULL,
    evidence          TEXT NOT NULL,
    resolution_method TEXT NOT NULL,
    resolution_policy TEXT NOT NULL,
    decision          TEXT NOT NULL,
    needs_review      INTEGER NOT NULL,
    client_id         TEXT NOT NULL,
    idempotency_key   TEXT NOT NULL,
    order_id          TEXT NOT NULL,
    account_masked    TEXT NOT NULL,
    account_hash      BLOB NOT NULL,
    amount            INTEGER NOT NULL,
    response_code     TEXT NOT NULL,
    response_message  TEXT NOT NULL,
    approval_number   TEXT NOT NULL,
    reason            TEXT NOT NULL,
    elapsed_us        INTEGER NOT NULL,
    requested_at      TEXT NOT NULL,
    sent_at           TEXT,
    responded_at      TEXT,
    resolved_at       TEXT,
    adopt_at          TEXT,
    resolve_attempts  INTEGER NOT NULL,
    not_found         INTEGER NOT NULL,
    asked             INTEGER NOT NULL,
    next_resolve_at   TEXT,
    lease_token       TEXT NOT NULL DEFAULT '',
    lease_until       TEXT,
    correlation_id    TEXT NOT NULL,
    trace_id          TEXT NOT NULL,

    PRIMARY KEY (business_date, transaction_id),

    CONSTRAINT transaction_id CHECK (
        length(transaction_id) = 22 AND substr(transaction_id, 1, 5) = 'GWMNU'
        AND substr(transaction_id, 6) NOT GLOB '*[^0-9]*'
        AND business_date = substr(transaction_id, 6, 4) || '-' || substr(transaction_id, 10, 2) || '-'
                            || substr(transaction_id, 12, 2)
        AND business_date = date(business_date)),
    CONSTRAINT kind CHECK (kind IN ('PAYMENT', 'BALANCE_INQUIRY', 'HISTORY_INQUIRY')),
    CONSTRAINT standing CHECK (
        CASE status || ' ' || evidence || ' ' || resolution_method
        WHEN 'REQUESTED  ' THEN decision = ''
        WHEN 'UNKNOWN  ' THEN true
        WHEN 'SUCCESS ANSWERED ' THEN decision = ''
        WHEN 'SUCCESS PROCESSED STATUS_INQUIRY' THEN decision = '' AND kind = 'PAYMENT'
        WHEN 'SUCCESS OPERATOR OPERATOR' THEN decision = '' AND kind = 'PAYMENT'
        WHEN 'FAILED ANSWERED ' THEN decision = ''
        WHEN 'FAILED NOT_SENT ' THEN decision = ''
        WHEN 'FAILED FENCED STATUS_INQUIRY' THEN decision = 'CANCEL'
        WHEN 'FAILED WINDOW_ELAPSED STATUS_INQUIRY' THEN decision = 'CANCEL'
        WHEN 'FAILED NO_EFFECT NONE' THEN kind <> 'PAYMENT'
        WHEN 'FAILED OPERATOR OPERATOR' THEN decision = 'CANCEL'
        WHEN 'CANCELED CANCEL_CONFIRMED NET_CANCEL' THEN kind = 'PAYMENT'
        WHEN 'CANCELED OPERATOR OPERATOR' THEN decision = 'CANCEL'
        ELSE false END),
    CONSTRAINT decision CHECK (decision = '' OR (decision = 'CANCEL' AND kind = 'PAYMENT')),
    CONSTRAINT review CHECK (needs_review IN (0, 1) AND (needs_review = 0 OR status = 'UNKNOWN')),
    CONSTRAINT policy CHECK (
        CASE WHEN kind = 'PAYMENT' THEN resolution_policy IN ('NET_CANCEL', 'CONFIRM') ELSE resolution_policy = '' END),
    CONSTRAINT amount CHECK (
        CASE WHEN kind = 'PAYMENT' THEN amount BETWEEN 1 AND 999999999999 ELSE amount = 0 END),
    CONSTRAINT idempotency_key CHECK (
        (idempotency_key <> '') = (kind = 'PAYMENT') AND length(idempotency_key) <= 64),
    CONSTRAINT names CHECK (
        length(client_id) BETWEEN 1 AND 64 AND length(order_id) <= 64
        AND length(correlation_id) <= 64 AND length(trace_id) IN (0, 32)),
    CONSTRAINT account_masked CHECK (
        instr(account_masked, '****') BETWEEN 1 AND 7
        AND substr(account_masked, 1, instr(account_masked, '****') - 1) NOT GLOB '*[^0-9]*'
        AND substr(account_masked, instr(account_masked, '****') + 4) NOT GLOB '*[^0-9]*'
        AND length(account_masked) - instr(account_masked, '****') <= 7),
    CONSTRAINT account_hash CHECK (length(account_hash) = 32),
    CONSTRAINT answer CHECK (
        length(response_code) IN (0, 4) AND response_code NOT GLOB '*[^0-9]*'
        AND length(approval_number) IN (0, 11) AND approval_number NOT GLOB '*[^0-9]*'
        AND length(response_message) <= 300 AND length(reason) <= 300),
    CONSTRAINT answered CHECK (
        CASE
        WHEN evidence = 'NOT_SENT' THEN response_code = '' AND sent_at IS NULL
        WHEN evidence = 'ANSWERED' AND status = 'SUCCESS' THEN response_code = '0000'
        WHEN evidence = 'ANSWERED' THEN response_code NOT IN ('', '0000')
            AND NOT (kind = 'PAYMENT' AND response_code = '0094')
        WHEN status = 'REQUESTED' THEN response_code = ''
        WHEN status = 'UNKNOWN' THEN response_code IN ('', '0094')
        ELSE NOT (kind = 'PAYMENT' AND response_code = '0094') OR evidence = 'OPERATOR' END),
    CONSTRAINT times CHECK (
        elapsed_us >= 0
        AND (status <> 'REQUESTED' OR adopt_at IS NOT NULL)
        AND (resolved_at IS NULL OR status IN ('SUCCESS', 'FAILED', 'CANCELED'))
        AND (resolution_method = '' OR resolved_at IS NOT NULL)),
    CONSTRAINT due CHECK (
        CASE
        WHEN status = 'UNKNOWN' AND kind = 'PAYMENT' AND response_code = '0094'
            THEN needs_review = 1 AND decision = '' AND next_resolve_at IS NULL
        WHEN status = 'UNKNOWN' THEN next_resolve_at IS NOT NULL
        ELSE next_resolve_at IS NULL OR evidence = 'OPERATOR' END),
    CONSTRAINT counters CHECK (resolve_attempts >= 0 AND not_found >= 0),
    CONSTRAINT asked CHECK (
        asked IN (0, 1)
        AND CASE WHEN asked THEN status <> 'REQUESTED' AND evidence <> 'NOT_SENT'
            ELSE resolve_attempts = 0 AND not_found = 0 END),
    -- Apart from each other, since SQLite checks what mentions a changed column: a
    -- row with a time that is none can then still be claimed and put off.
    CONSTRAINT formats CHECK (
        requested_at GLOB
            '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'
        AND (sent_at IS NULL OR sent_at GLOB
            '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
        AND (responded_at IS NULL OR responded_at GLOB
            '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
        AND (resolved_at IS NULL OR resolved_at GLOB
            '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')
        AND (adopt_at IS NULL OR adopt_at GLOB
            '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z')),
    CONSTRAINT due_format CHECK (next_resolve_at IS NULL OR next_resolve_at GLOB
            '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    CONSTRAINT lease_format CHECK (lease_until IS NULL OR lease_until GLOB
            '[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T[0-9][0-9]:[0-9][0-9]:[0-9][0-9].[0-9][0-9][0-9][0-9][0-9][0-9]Z'),
    CONSTRAINT lease CHECK (
        (lease_token = '') = (lease_until IS NULL)
        AND (lease_token = '' OR status = 'UNKNOWN' OR evidence = 'OPERATOR'))
) STRICT;

-- What is pending, and nothing else. That of what is due has the moment of the
-- request too, so that the backlog is counted without reading a row.
CREATE INDEX transactions_due ON transactions (needs_review, asked, next_resolve_at, transaction_id, requested_at)
    WHERE status = 'UNKNOWN';
CREATE INDEX transactions_abandoned ON transactions (adopt_at)
    WHERE status = 'REQUESTED';

-- What lists are asked for, in their order.
CREATE INDEX transactions_listed ON transactions (requested_at DESC, transaction_id DESC);
CREATE INDEX transactions_of_client ON transactions (client_id, requested_at DESC, transaction_id DESC);
CREATE INDEX transactions_of_account ON transactions (account_hash, requested_at DESC, transaction_id DESC);
CREATE INDEX transactions_of_correlation ON transactions (correlation_id, requested_at DESC, transaction_id DESC)
    WHERE correlation_id <> '';
CREATE INDEX transactions_of_order ON transactions (order_id, requested_at DESC, transaction_id DESC)
    WHERE order_id <> '';

CREATE TABLE transaction_events (
    sequence       INTEGER PRIMARY KEY AUTOINCREMENT,
    business_date  TEXT NOT NULL,
    transaction_id TEXT NOT NULL,
    at             TEXT NOT NULL,
    from_status    TEXT NOT NULL,
    to_status      TEXT NOT NULL,
    evidence       TEXT NOT NULL,
    actor          TEXT NOT NULL,
    instance       TEXT NOT NULL,
    detail         TEXT NOT NULL,
    trace_id       TEXT NOT NULL,

    FOREIGN KEY (business_date, transaction_id) REFERENCES transactions,

    CONSTRAINT event_status CHECK (
        from_status IN ('', 'REQUESTED', 'SUCCESS', 'FAILED', 'UNKNOWN', 'CANCELED')
        AND to_status IN ('REQUESTED', 'SUCCESS', 'FAILED', 'UNKNOWN', 'CANCELED')),
    CONSTRAINT event_evidence CHECK (
        evidence IN ('', 'NOT_SENT', 'ANSWERED', 'PROCESSED', 'CANCEL_CONFIRMED', 'FENCED', 'WINDOW_ELAPSED',
                     'NO_EFFECT', 'OPERATOR')),
    CONSTRAINT event_actor CHECK (
        length(actor) BETWEEN 1 AND 100 AND length(instance) <= 100 AND length(trace_id) IN (0, 32)),
    CONSTRAINT event_detail CHECK (length(detail) <= 300)
) STRICT;
CREATE INDEX transaction_events_of ON transaction_events (business_date, transaction_id, sequence);

-- The key is bound before its transaction is inserted, so that the losers of a
-- race wait on the key and insert nothing: hence the deferred reference.
CREATE TABLE idempotency_keys (
    client_id       TEXT NOT NULL,
    idempotency_key TEXT NOT NULL,
    fingerprint     BLOB NOT NULL CHECK (length(fingerprint) = 32),
    business_date   TEXT NOT NULL,
    transaction_id  TEXT NOT NULL,
    created_at      TEXT NOT NULL,

    PRIMARY KEY (client_id, idempotency_key),
    FOREIGN KEY (business_date, transaction_id) REFERENCES transactions DEFERRABLE INITIALLY DEFERRED
) STRICT;

-- +goose StatementBegin
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON transaction_events
BEGIN
    SELECT RAISE(ABORT, 'events are only ever appended');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER events_are_not_deleted BEFORE DELETE ON transaction_events
BEGIN
    SELECT RAISE(ABORT, 'events are only ever appended');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER final_is_final BEFORE UPDATE OF status ON transactions
WHEN OLD.status IN ('SUCCESS', 'FAILED', 'CANCELED') AND NEW.status <> OLD.status
BEGIN
    SELECT RAISE(ABORT, 'a final status never changes');
END;
-- +goose StatementEnd
-- +goose StatementBegin
CREATE TRIGGER decision_is_irrevocable BEFORE UPDATE OF decision ON transactions
WHEN OLD.decision <> '' AND NEW.decision <> OLD.decision
BEGIN
    SELECT RAISE(ABORT, 'a decision is irrevocable');
END;
-- +goose StatementEnd
