-- What a payment costs the database, without a rule less.
--
-- The rules of a row are said by one function. PostgreSQL reads the text of each
-- CHECK anew for each statement that writes, which took longer than to write a
-- payment's row: of a CHECK that calls a function, that is the call. A function is
-- read once in a session, and means the same whatever the session's search_path. It
-- names the rule that is broken as a constraint of that name would, and they bear
-- the names of the invariants in package ledger still.

-- +goose Up

-- Who waits for a table keeps all who come later waiting: an open reader must not
-- stop payments for longer than this. Then it is tried again.
SET LOCAL lock_timeout = '500ms';

-- +goose StatementBegin
CREATE FUNCTION gwanmun_transaction_is_sound(
    business_date date, transaction_id text, kind text, status text, evidence text, resolution_method text,
    resolution_policy text, decision text, needs_review boolean, client_id text, idempotency_key text, order_id text,
    account_masked text, account_hash bytea, amount bigint, response_code text, response_message text,
    approval_number text, reason text, elapsed_us bigint, sent_at timestamptz, resolved_at timestamptz,
    adopt_at timestamptz, resolve_attempts integer, not_found integer, asked boolean, next_resolve_at timestamptz,
    lease_token text, lease_until timestamptz, correlation_id text, trace_id text
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
DECLARE
    broken text := CASE
    WHEN NOT (
        CASE WHEN octet_length(transaction_id) = 22 AND transaction_id ~ '^GWMNU[0-9]+$'
        THEN business_date = make_date(substr(transaction_id, 6, 4)::int, substr(transaction_id, 10, 2)::int,
                                       substr(transaction_id, 12, 2)::int)
        ELSE false END) THEN 'transaction_id'
    WHEN kind NOT IN ('PAYMENT', 'BALANCE_INQUIRY', 'HISTORY_INQUIRY') THEN 'kind'
    WHEN NOT (
        CASE status || ' ' || evidence || ' ' || resolution_method
        WHEN 'REQUESTED  ' THEN decision = ''
        WHEN 'SUCCESS ANSWERED ' THEN decision = ''
        WHEN 'UNKNOWN  ' THEN true
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
        ELSE false END) THEN 'standing'
    WHEN NOT (decision = '' OR (decision = 'CANCEL' AND kind = 'PAYMENT')) THEN 'decision'
    WHEN needs_review AND status <> 'UNKNOWN' THEN 'review'
    WHEN NOT (
        CASE WHEN kind = 'PAYMENT' THEN resolution_policy IN ('NET_CANCEL', 'CONFIRM')
        ELSE resolution_policy = '' END) THEN 'policy'
    WHEN NOT (
        CASE WHEN kind = 'PAYMENT' THEN amount BETWEEN 1 AND 999999999999 ELSE amount = 0 END) THEN 'amount'
    WHEN NOT (
        (idempotency_key <> '') = (kind = 'PAYMENT') AND char_length(idempotency_key) <= 64) THEN 'idempotency_key'
    WHEN NOT (
        char_length(client_id) BETWEEN 1 AND 64 AND char_length(order_id) <= 64
        AND char_length(correlation_id) <= 64 AND octet_length(trace_id) IN (0, 32)) THEN 'names'
    WHEN NOT (account_masked ~ '^[0-9]{0,6}[*]{4}[0-9]{0,4}$') THEN 'account_masked'
    WHEN octet_length(account_hash) <> 32 THEN 'account_hash'
    WHEN NOT (
        octet_length(response_code) IN (0, 4) AND rtrim(response_code, '0123456789') = ''
        AND octet_length(approval_number) IN (0, 11) AND rtrim(approval_number, '0123456789') = ''
        AND char_length(response_message) <= 300 AND char_length(reason) <= 300) THEN 'answer'
    WHEN NOT (
        CASE
        WHEN evidence = 'NOT_SENT' THEN response_code = '' AND sent_at IS NULL
        WHEN evidence = 'ANSWERED' AND status = 'SUCCESS' THEN response_code = '0000'
        WHEN evidence = 'ANSWERED' THEN response_code NOT IN ('', '0000')
            AND NOT (kind = 'PAYMENT' AND response_code = '0094')
        WHEN status = 'REQUESTED' THEN response_code = ''
        WHEN status = 'UNKNOWN' THEN response_code IN ('', '0094')
        ELSE NOT (kind = 'PAYMENT' AND response_code = '0094') OR evidence = 'OPERATOR' END) THEN 'answered'
    WHEN NOT (
        elapsed_us >= 0
        AND (status <> 'REQUESTED' OR adopt_at IS NOT NULL)
        AND (resolved_at IS NULL OR status IN ('SUCCESS', 'FAILED', 'CANCELED'))
        AND (resolution_method = '' OR resolved_at IS NOT NULL)) THEN 'times'
    WHEN NOT (
        CASE
        WHEN status = 'UNKNOWN' AND kind = 'PAYMENT' AND response_code = '0094'
            THEN needs_review AND decision = '' AND next_resolve_at IS NULL
        WHEN status = 'UNKNOWN' THEN next_resolve_at IS NOT NULL
        ELSE next_resolve_at IS NULL OR evidence = 'OPERATOR' END) THEN 'due'
    WHEN resolve_attempts < 0 OR not_found < 0 THEN 'counters'
    WHEN NOT (
        CASE WHEN asked THEN status <> 'REQUESTED' AND evidence <> 'NOT_SENT'
        ELSE resolve_attempts = 0 AND not_found = 0 END) THEN 'asked'
    WHEN NOT (
        (lease_token = '') = (lease_until IS NULL)
        AND (lease_token = '' OR status = 'UNKNOWN' OR evidence = 'OPERATOR')) THEN 'lease'
    END;
BEGIN
    IF broken IS NULL THEN
        RETURN true;
    END IF;
    RAISE EXCEPTION 'new row for relation "transactions" violates check constraint "%"', broken
        USING ERRCODE = 'check_violation', TABLE = 'transactions', CONSTRAINT = broken;
END
$$;
-- +goose StatementEnd

ALTER TABLE transactions
    DROP CONSTRAINT transaction_id, DROP CONSTRAINT kind, DROP CONSTRAINT standing, DROP CONSTRAINT decision,
    DROP CONSTRAINT review, DROP CONSTRAINT policy, DROP CONSTRAINT amount, DROP CONSTRAINT idempotency_key,
    DROP CONSTRAINT names, DROP CONSTRAINT account_masked, DROP CONSTRAINT account_hash, DROP CONSTRAINT answer,
    DROP CONSTRAINT answered, DROP CONSTRAINT times, DROP CONSTRAINT due, DROP CONSTRAINT counters,
    DROP CONSTRAINT asked, DROP CONSTRAINT lease,
    -- The rows that are there kept to the same rules when they were written.
    ADD CONSTRAINT sound CHECK (gwanmun_transaction_is_sound(
        business_date, transaction_id, kind, status, evidence, resolution_method, resolution_policy, decision,
        needs_review, client_id, idempotency_key, order_id, account_masked, account_hash, amount, response_code,
        response_message, approval_number, reason, elapsed_us, sent_at, resolved_at, adopt_at, resolve_attempts,
        not_found, asked, next_resolve_at, lease_token, lease_until, correlation_id, trace_id)) NOT VALID;

-- +goose StatementBegin
CREATE FUNCTION gwanmun_event_is_sound(
    from_status text, to_status text, evidence text, actor text, instance text, detail text, trace_id text
) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE SET search_path = pg_catalog AS $$
DECLARE
    broken text := CASE
    WHEN NOT (
        from_status IN ('', 'REQUESTED', 'SUCCESS', 'FAILED', 'UNKNOWN', 'CANCELED')
        AND to_status IN ('REQUESTED', 'SUCCESS', 'FAILED', 'UNKNOWN', 'CANCELED')) THEN 'event_status'
    WHEN evidence NOT IN ('', 'NOT_SENT', 'ANSWERED', 'PROCESSED', 'CANCEL_CONFIRMED', 'FENCED', 'WINDOW_ELAPSED',
                          'NO_EFFECT', 'OPERATOR') THEN 'event_evidence'
    WHEN NOT (
        char_length(actor) BETWEEN 1 AND 100 AND char_length(instance) <= 100
        AND octet_length(trace_id) IN (0, 32)) THEN 'event_actor'
    WHEN char_length(detail) > 300 THEN 'event_detail'
    END;
BEGIN
    IF broken IS NULL THEN
        RETURN true;
    END IF;
    RAISE EXCEPTION 'new row for relation "transaction_events" violates check constraint "%"', broken
        USING ERRCODE = 'check_violation', TABLE = 'transaction_events', CONSTRAINT = broken;
END
$$;
-- +goose StatementEnd

ALTER TABLE transaction_events
    DROP CONSTRAINT event_status, DROP CONSTRAINT event_evidence, DROP CONSTRAINT event_actor,
    DROP CONSTRAINT event_detail,
    ADD CONSTRAINT event_sound CHECK (gwanmun_event_is_sound(
        from_status, to_status, evidence, actor, instance, detail, trace_id)) NOT VALID;

-- An event is written by the statement that writes its row, and a row only ever
-- leaves with its day (rows_are_not_deleted), after its events. To look for the row
-- again at each write took an eighth of what a payment costs. That of a key stays:
-- the version before relies on it where an order is held, and may run beside us.
ALTER TABLE transaction_events DROP CONSTRAINT transaction_events_business_date_transaction_id_fkey;
CREATE TRIGGER rows_keep_their_ids BEFORE UPDATE OF business_date, transaction_id ON transactions
    FOR EACH ROW WHEN (OLD.business_date <> NEW.business_date OR OLD.transaction_id <> NEW.transaction_id)
    EXECUTE FUNCTION gwanmun_refuse('a row keeps its ID');
