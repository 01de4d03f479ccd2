-- The ledger: what was asked of the core, what is known of it, and how that came
-- to be. The CHECKs of transactions bear the names of the invariants in package
-- ledger and say the same; those of decision and standing hold the states of an
-- operator's settlement too.

-- +goose Up
CREATE TABLE hash_key_check (
    id          smallint PRIMARY KEY CHECK (id = 1),
    check_value bytea NOT NULL CHECK (octet_length(check_value) = 32)
);

-- What is written to find out whether anything can be, after a write has failed.
CREATE TABLE write_probe (
    id     smallint PRIMARY KEY CHECK (id = 1),
    filler bytea NOT NULL
);
INSERT INTO write_probe (id, filler) VALUES (1, '');

CREATE TABLE tranid_blocks (
    business_date date PRIMARY KEY,
    next_number   bigint NOT NULL CHECK (next_number BETWEEN 0 AND 1000000000)
);

CREATE TABLE transactions (
    business_date     date NOT NULL,
    transaction_id    text COLLATE "C" NOT NULL,
    kind              text NOT NULL,
    status            text NOT NULL,
    evidence          text NOT NULL,
    resolution_method text NOT NULL,
    resolution_policy text NOT NULL,
    decision          text NOT NULL,
    needs_review      boolean NOT NULL,
    client_id         text NOT NULL,
    idempotency_key   text NOT NULL,
    order_id          text NOT NULL,
    account_masked    text NOT NULL,
    account_hash      bytea NOT NULL,
    amount            bigint NOT NULL,
    response_code     text NOT NULL,
    response_message  text NOT NULL,
    approval_number   text NOT NULL,
    reason            text NOT NULL,
    elapsed_us        bigint NOT NULL,
    requested_at      timestamptz NOT NULL,
    sent_at           timestamptz,
    responded_at      timestamptz,
    resolved_at       timestamptz,
    adopt_at          timestamptz,
    resolve_attempts  integer NOT NULL,
    not_found         integer NOT NULL,
    asked             boolean NOT NULL,
    next_resolve_at   timestamptz,
    lease_token       text NOT NULL DEFAULT '',
    lease_until       timestamptz,
    correlation_id    text NOT NULL,
    trace_id          text NOT NULL,

    PRIMARY KEY (business_date, transaction_id),

    CONSTRAINT transaction_id CHECK (
        CASE WHEN transaction_id ~ '^GWMNU[0-9]{17}$'
        THEN business_date = make_date(substr(transaction_id, 6, 4)::int, substr(transaction_id, 10, 2)::int,
                                       substr(transaction_id, 12, 2)::int)
        ELSE false END),
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
    CONSTRAINT review CHECK (NOT needs_review OR status = 'UNKNOWN'),
    CONSTRAINT policy CHECK (
        CASE WHEN kind = 'PAYMENT' THEN resolution_policy IN ('NET_CANCEL', 'CONFIRM') ELSE resolution_policy = '' END),
    CONSTRAINT amount CHECK (
        CASE WHEN kind = 'PAYMENT' THEN amount BETWEEN 1 AND 999999999999 ELSE amount = 0 END),
    CONSTRAINT idempotency_key CHECK (
        (idempotency_key <> '') = (kind = 'PAYMENT') AND char_length(idempotency_key) <= 64),
    CONSTRAINT names CHECK (
        char_length(client_id) BETWEEN 1 AND 64 AND char_length(order_id) <= 64
        AND char_length(correlation_id) <= 64 AND octet_length(trace_id) IN (0, 32)),
    CONSTRAINT account_masked CHECK (account_masked ~ '^[0-9]{0,6}\*{4}[0-9]{0,4}$'),
    CONSTRAINT account_hash CHECK (octet_length(account_hash) = 32),
    CONSTRAINT answer CHECK (
        response_code ~ '^([0-9]{4})?$' AND approval_number ~ '^([0-9]{11})?$'
        AND char_length(response_message) <= 300 AND char_length(reason) <= 300),
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
            THEN needs_review AND decision = '' AND next_resolve_at IS NULL
        WHEN status = 'UNKNOWN' THEN next_resolve_at IS NOT NULL
        ELSE next_resolve_at IS NULL OR evidence = 'OPERATOR' END),
    CONSTRAINT counters CHECK (resolve_attempts >= 0 AND not_found >= 0),
    CONSTRAINT asked CHECK (
        CASE WHEN asked THEN status <> 'REQUESTED' AND evidence <> 'NOT_SENT'
        ELSE resolve_attempts = 0 AND not_found = 0 END),
    CONSTRAINT lease CHECK (
        (lease_token = '') = (lease_until IS NULL)
        AND (lease_token = '' OR status = 'UNKNOWN' OR evidence = 'OPERATOR'))
);

-- What is pending, and nothing else. That of what is due has the moment of the
-- request too, so that the backlog is counted without reading a row.
CREATE INDEX transactions_due ON transactions (needs_review, asked, next_resolve_at, transaction_id)
    INCLUDE (requested_at)
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
    sequence       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    business_date  date NOT NULL,
    transaction_id text COLLATE "C" NOT NULL,
    at             timestamptz NOT NULL,
    from_status    text NOT NULL,
    to_status      text NOT NULL,
    evidence       text NOT NULL,
    actor          text NOT NULL,
    instance       text NOT NULL,
    detail         text NOT NULL,
    trace_id       text NOT NULL,

    FOREIGN KEY (business_date, transaction_id) REFERENCES transactions,

    CONSTRAINT event_status CHECK (
        from_status IN ('', 'REQUESTED', 'SUCCESS', 'FAILED', 'UNKNOWN', 'CANCELED')
        AND to_status IN ('REQUESTED', 'SUCCESS', 'FAILED', 'UNKNOWN', 'CANCELED')),
    CONSTRAINT event_evidence CHECK (
        evidence IN ('', 'NOT_SENT', 'ANSWERED', 'PROCESSED', 'CANCEL_CONFIRMED', 'FENCED', 'WINDOW_ELAPSED',
                     'NO_EFFECT', 'OPERATOR')),
    CONSTRAINT event_actor CHECK (
        char_length(actor) BETWEEN 1 AND 100 AND char_length(instance) <= 100 AND octet_length(trace_id) IN (0, 32)),
    CONSTRAINT event_detail CHECK (char_length(detail) <= 300)
);
CREATE INDEX transaction_events_of ON transaction_events (business_date, transaction_id, sequence);

-- The key is bound before its transaction is inserted, so that the losers of a
-- race wait on the key and insert nothing: hence the deferred reference.
CREATE TABLE idempotency_keys (
    client_id       text NOT NULL,
    idempotency_key text NOT NULL,
    fingerprint     bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    business_date   date NOT NULL,
    transaction_id  text COLLATE "C" NOT NULL,
    created_at      timestamptz NOT NULL,

    PRIMARY KEY (client_id, idempotency_key),
    FOREIGN KEY (business_date, transaction_id) REFERENCES transactions DEFERRABLE INITIALLY DEFERRED
);

-- +goose StatementBegin
CREATE FUNCTION gwanmun_refuse() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', TG_ARGV[0] USING ERRCODE = 'check_violation', CONSTRAINT = TG_NAME;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER events_are_appended_only BEFORE UPDATE OR DELETE ON transaction_events
    FOR EACH ROW EXECUTE FUNCTION gwanmun_refuse('events are only ever appended');
CREATE TRIGGER events_are_never_truncated BEFORE TRUNCATE ON transaction_events
    FOR EACH STATEMENT EXECUTE FUNCTION gwanmun_refuse('events are only ever appended');
CREATE TRIGGER final_is_final BEFORE UPDATE OF status ON transactions
    FOR EACH ROW WHEN (OLD.status IN ('SUCCESS', 'FAILED', 'CANCELED') AND NEW.status <> OLD.status)
    EXECUTE FUNCTION gwanmun_refuse('a final status never changes');
CREATE TRIGGER decision_is_irrevocable BEFORE UPDATE OF decision ON transactions
    FOR EACH ROW WHEN (OLD.decision <> '' AND NEW.decision <> OLD.decision)
    EXECUTE FUNCTION gwanmun_refuse('a decision is irrevocable');
