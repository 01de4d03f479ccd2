-- What a payment costs the database, once more without a rule less.
--
-- Nearly every row that is written is plain: a request, or a success that the core
-- answered, and nothing more. To see that takes a third of what it takes to go
-- through all rules, which are asked only of what is not plain at a glance. Whatever
-- is plain keeps every rule: TestInvariants_AreTheSameInGoAndInTheDatabase asks. And
-- TestConstraints_WhatIsWrittenMostIsPlain asks whether the glance still sees it.
--
-- A row is given whole: PostgreSQL reads the text of a CHECK anew for each statement,
-- and 31 columns are a long text. Nor do the functions set a search_path, which took
-- a microsecond at each call: they name nothing but what is built in, which comes
-- first in every path but one that puts a schema before pg_catalog.

-- +goose Up

-- Who waits for a table keeps all who come later waiting: an open reader must not
-- stop payments for longer than this. Then it is tried again.
SET LOCAL lock_timeout = '500ms';

-- A time that is none was not refused before. Whatever is to be done with a row would
-- now fail for it, and with it the claim of all that is due: so what is pending is
-- mended. What is over is left as it is, and stepped over by those who read it.
CREATE FUNCTION gwanmun_is_time(at timestamptz) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS 'SELECT coalesce(at > timestamptz ''0001-01-01 00:00:00+00'' AND at < ''10000-01-01 00:00:00+00'', true)';
WITH pending AS (
    SELECT t FROM transactions AS t WHERE status = 'UNKNOWN'
    UNION ALL SELECT t FROM transactions AS t WHERE status = 'REQUESTED'
    UNION ALL SELECT t FROM transactions AS t WHERE evidence = 'OPERATOR' AND next_resolve_at IS NOT NULL
), bad AS MATERIALIZED (
    SELECT (t).business_date AS bad_date, (t).transaction_id AS bad_id FROM pending
    WHERE NOT (gwanmun_is_time((t).requested_at) AND gwanmun_is_time((t).sent_at) AND gwanmun_is_time((t).responded_at)
        AND gwanmun_is_time((t).resolved_at) AND gwanmun_is_time((t).adopt_at) AND gwanmun_is_time((t).next_resolve_at)
        AND gwanmun_is_time((t).lease_until))
)
UPDATE transactions SET
    requested_at = CASE WHEN gwanmun_is_time(requested_at) THEN requested_at
        ELSE business_date::timestamp AT TIME ZONE interval '9 hours' END,
    sent_at = CASE WHEN gwanmun_is_time(sent_at) THEN sent_at END,
    responded_at = CASE WHEN gwanmun_is_time(responded_at) THEN responded_at END,
    resolved_at = CASE WHEN gwanmun_is_time(resolved_at) THEN resolved_at ELSE now() END,
    adopt_at = CASE WHEN gwanmun_is_time(adopt_at) THEN adopt_at ELSE now() END,
    next_resolve_at = CASE WHEN gwanmun_is_time(next_resolve_at) THEN next_resolve_at ELSE now() END,
    lease_until = CASE WHEN gwanmun_is_time(lease_until) THEN lease_until ELSE now() END
FROM bad WHERE business_date = bad_date AND transaction_id = bad_id;
DROP FUNCTION gwanmun_is_time(timestamptz);

-- Whether a row keeps every rule. The error names the one that is broken as a
-- constraint of that name would, and they bear the names of the invariants in
-- package ledger.
-- +goose StatementBegin
CREATE FUNCTION gwanmun_row_is_sound(t transactions) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    -- What a row is born with, and keeps. Of text in UTF-8 there are no more
    -- characters than bytes.
    born_plain boolean := octet_length(t.transaction_id) = 22 AND rtrim(t.transaction_id, '0123456789') = 'GWMNU'
        AND substr(t.transaction_id, 6, 8)::date = t.business_date
        AND CASE t.kind
        WHEN 'PAYMENT' THEN t.resolution_policy IN ('NET_CANCEL', 'CONFIRM') AND t.idempotency_key <> ''
            AND t.amount BETWEEN 1 AND 999999999999
        ELSE t.kind IN ('BALANCE_INQUIRY', 'HISTORY_INQUIRY') AND t.resolution_policy || t.idempotency_key = ''
            AND t.amount = 0 END
        AND t.client_id <> '' AND octet_length(t.client_id) <= 64 AND octet_length(t.idempotency_key) <= 64
        AND octet_length(t.order_id) <= 64 AND octet_length(t.correlation_id) <= 64 AND octet_length(t.trace_id) IN (0, 32)
        AND rtrim(ltrim(t.account_masked, '0123456789'), '0123456789') = '****' AND strpos(t.account_masked, '*') <= 7
        AND octet_length(t.account_masked) - strpos(t.account_masked, '*') <= 7 AND octet_length(t.account_hash) = 32;
    broken text;
BEGIN
    IF born_plain AND (
        CASE t.status
        WHEN 'REQUESTED' THEN t.evidence || t.response_code || t.approval_number || t.response_message || t.reason = ''
            AND t.adopt_at IS NOT NULL
        WHEN 'SUCCESS' THEN t.evidence = 'ANSWERED' AND t.response_code = '0000'
            AND octet_length(t.approval_number) IN (0, 11) AND rtrim(t.approval_number, '0123456789') = ''
            AND octet_length(t.response_message) <= 300 AND t.reason = '' END
        AND t.decision || t.resolution_method || t.lease_token = '' AND t.lease_until IS NULL
        AND NOT t.needs_review AND NOT t.asked AND t.resolve_attempts = 0 AND t.not_found = 0
        AND t.resolved_at IS NULL AND t.next_resolve_at IS NULL AND t.elapsed_us >= 0
        AND least(t.requested_at, t.sent_at, t.responded_at, t.adopt_at) > '0001-01-01 00:00:00+00'
        AND greatest(t.requested_at, t.sent_at, t.responded_at, t.adopt_at) < '10000-01-01 00:00:00+00')
    THEN
        RETURN true;
    END IF;
    broken := CASE
    WHEN NOT (born_plain OR
        CASE WHEN octet_length(t.transaction_id) = 22 AND t.transaction_id ~ '^GWMNU[0-9]+$'
        THEN t.business_date = make_date(substr(t.transaction_id, 6, 4)::int, substr(t.transaction_id, 10, 2)::int,
                                         substr(t.transaction_id, 12, 2)::int)
        ELSE false END) THEN 'transaction_id'
    WHEN NOT (born_plain OR t.kind IN ('PAYMENT', 'BALANCE_INQUIRY', 'HISTORY_INQUIRY')) THEN 'kind'
    WHEN NOT (
        CASE t.status || ' ' || t.evidence || ' ' || t.resolution_method
        WHEN 'REQUESTED  ' THEN t.decision = ''
        WHEN 'SUCCESS ANSWERED ' THEN t.decision = ''
        WHEN 'UNKNOWN  ' THEN true
        WHEN 'SUCCESS PROCESSED STATUS_INQUIRY' THEN t.decision = '' AND t.kind = 'PAYMENT'
        WHEN 'SUCCESS OPERATOR OPERATOR' THEN t.decision = '' AND t.kind = 'PAYMENT'
        WHEN 'FAILED ANSWERED ' THEN t.decision = ''
        WHEN 'FAILED NOT_SENT ' THEN t.decision = ''
        WHEN 'FAILED FENCED STATUS_INQUIRY' THEN t.decision = 'CANCEL'
        WHEN 'FAILED WINDOW_ELAPSED STATUS_INQUIRY' THEN t.decision = 'CANCEL'
        WHEN 'FAILED NO_EFFECT NONE' THEN t.kind <> 'PAYMENT'
        WHEN 'FAILED OPERATOR OPERATOR' THEN t.decision = 'CANCEL'
        WHEN 'CANCELED CANCEL_CONFIRMED NET_CANCEL' THEN t.kind = 'PAYMENT'
        WHEN 'CANCELED OPERATOR OPERATOR' THEN t.decision = 'CANCEL'
        ELSE false END) THEN 'standing'
    WHEN NOT (t.decision = '' OR (t.decision = 'CANCEL' AND t.kind = 'PAYMENT')) THEN 'decision'
    WHEN t.needs_review AND t.status <> 'UNKNOWN' THEN 'review'
    WHEN NOT (born_plain OR
        CASE WHEN t.kind = 'PAYMENT' THEN t.resolution_policy IN ('NET_CANCEL', 'CONFIRM')
        ELSE t.resolution_policy = '' END) THEN 'policy'
    WHEN NOT (born_plain OR
        CASE WHEN t.kind = 'PAYMENT' THEN t.amount BETWEEN 1 AND 999999999999 ELSE t.amount = 0 END) THEN 'amount'
    WHEN NOT (born_plain OR
        (t.idempotency_key <> '') = (t.kind = 'PAYMENT') AND char_length(t.idempotency_key) <= 64) THEN 'idempotency_key'
    WHEN NOT (born_plain OR
        char_length(t.client_id) BETWEEN 1 AND 64 AND char_length(t.order_id) <= 64
        AND char_length(t.correlation_id) <= 64 AND octet_length(t.trace_id) IN (0, 32)) THEN 'names'
    WHEN NOT (born_plain OR t.account_masked ~ '^[0-9]{0,6}[*]{4}[0-9]{0,4}$') THEN 'account_masked'
    WHEN NOT (born_plain OR octet_length(t.account_hash) = 32) THEN 'account_hash'
    WHEN NOT (
        octet_length(t.response_code) IN (0, 4) AND rtrim(t.response_code, '0123456789') = ''
        AND octet_length(t.approval_number) IN (0, 11) AND rtrim(t.approval_number, '0123456789') = ''
        AND char_length(t.response_message) <= 300 AND char_length(t.reason) <= 300) THEN 'answer'
    WHEN NOT (
        CASE
        WHEN t.evidence = 'NOT_SENT' THEN t.response_code = '' AND t.sent_at IS NULL
        WHEN t.evidence = 'ANSWERED' AND t.status = 'SUCCESS' THEN t.response_code = '0000'
        WHEN t.evidence = 'ANSWERED' THEN t.response_code NOT IN ('', '0000')
            AND NOT (t.kind = 'PAYMENT' AND t.response_code = '0094')
        WHEN t.status = 'REQUESTED' THEN t.response_code = ''
        WHEN t.status = 'UNKNOWN' THEN t.response_code IN ('', '0094')
        ELSE NOT (t.kind = 'PAYMENT' AND t.response_code = '0094') OR t.evidence = 'OPERATOR' END) THEN 'answered'
    WHEN NOT (
        t.elapsed_us >= 0
        AND (t.status <> 'REQUESTED' OR t.adopt_at IS NOT NULL)
        AND (t.resolved_at IS NULL OR t.status IN ('SUCCESS', 'FAILED', 'CANCELED'))
        AND (t.resolution_method = '' OR t.resolved_at IS NOT NULL)
        -- The years 1 to 9999, and so no infinity. These overlook what is NULL.
        AND least(t.requested_at, t.sent_at, t.responded_at, t.resolved_at, t.adopt_at, t.next_resolve_at, t.lease_until)
            > '0001-01-01 00:00:00+00'
        AND greatest(t.requested_at, t.sent_at, t.responded_at, t.resolved_at, t.adopt_at, t.next_resolve_at, t.lease_until)
            < '10000-01-01 00:00:00+00') THEN 'times'
    WHEN NOT (
        CASE
        WHEN t.status = 'UNKNOWN' AND t.kind = 'PAYMENT' AND t.response_code = '0094'
            THEN t.needs_review AND t.decision = '' AND t.next_resolve_at IS NULL
        WHEN t.status = 'UNKNOWN' THEN t.next_resolve_at IS NOT NULL
        ELSE t.next_resolve_at IS NULL OR t.evidence = 'OPERATOR' END) THEN 'due'
    WHEN t.resolve_attempts < 0 OR t.not_found < 0 THEN 'counters'
    WHEN NOT (
        CASE WHEN t.asked THEN t.status <> 'REQUESTED' AND t.evidence <> 'NOT_SENT'
        ELSE t.resolve_attempts = 0 AND t.not_found = 0 END) THEN 'asked'
    WHEN NOT (
        (t.lease_token = '') = (t.lease_until IS NULL)
        AND (t.lease_token = '' OR t.status = 'UNKNOWN' OR t.evidence = 'OPERATOR')) THEN 'lease'
    END;
    IF broken IS NULL THEN
        RETURN true;
    END IF;
    RAISE EXCEPTION 'new row for relation "transactions" violates check constraint "%"', broken
        USING ERRCODE = 'check_violation', TABLE = 'transactions', CONSTRAINT = broken;
END
$$;
-- +goose StatementEnd

ALTER TABLE transactions
    DROP CONSTRAINT sound,
    -- The rows that are there kept to the same rules when they were written, but for
    -- that of the years, which is new.
    ADD CONSTRAINT sound CHECK (gwanmun_row_is_sound(transactions)) NOT VALID;

-- +goose StatementBegin
CREATE FUNCTION gwanmun_event_is_sound(e transaction_events) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE
    broken text := CASE
    WHEN NOT (
        e.from_status IN ('', 'REQUESTED', 'SUCCESS', 'FAILED', 'UNKNOWN', 'CANCELED')
        AND e.to_status IN ('REQUESTED', 'SUCCESS', 'FAILED', 'UNKNOWN', 'CANCELED')) THEN 'event_status'
    WHEN e.evidence NOT IN ('', 'NOT_SENT', 'ANSWERED', 'PROCESSED', 'CANCEL_CONFIRMED', 'FENCED', 'WINDOW_ELAPSED',
                            'NO_EFFECT', 'OPERATOR') THEN 'event_evidence'
    WHEN NOT (
        char_length(e.actor) BETWEEN 1 AND 100 AND char_length(e.instance) <= 100
        AND octet_length(e.trace_id) IN (0, 32)) THEN 'event_actor'
    WHEN char_length(e.detail) > 300 THEN 'event_detail'
    WHEN NOT (e.at > '0001-01-01 00:00:00+00' AND e.at < '10000-01-01 00:00:00+00') THEN 'event_time'
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
    DROP CONSTRAINT event_sound,
    ADD CONSTRAINT event_sound CHECK (gwanmun_event_is_sound(transaction_events)) NOT VALID;

DROP FUNCTION gwanmun_transaction_is_sound(
    date, text, text, text, text, text, text, text, boolean, text, text, text, text, bytea, bigint, text, text, text, text,
    bigint, timestamptz, timestamptz, timestamptz, integer, integer, boolean, timestamptz, text, timestamptz, text, text);
DROP FUNCTION gwanmun_event_is_sound(text, text, text, text, text, text, text);
