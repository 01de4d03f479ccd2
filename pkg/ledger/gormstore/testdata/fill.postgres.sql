-- A batch of payments as they are in a PostgreSQL book: the intent with its event,
-- key and order guard, and then the outcome with its event. $1 is the number of the
-- first, $2 how many, $3 the business day.
WITH payment AS (
    SELECT n, id, $3::date + n * interval '10 ms' AS at,
           CASE n % 100 WHEN 0 THEN 'small-shop' ELSE 'shop' END AS client,
           substr(md5('k' || id), 1, 4) || md5('key' || id) AS key,
           'order-' || md5('order' || id) AS order_id,
           sha256(('account' || n % 1000)::bytea) AS account
    FROM generate_series($1::bigint, $1::bigint + $2::bigint - 1) AS n,
         LATERAL (SELECT 'GWMNU' || to_char($3::date, 'YYYYMMDD') || lpad(n::text, 9, '0') AS id) AS named
), keyed AS (
    INSERT INTO idempotency_keys
        (client_id, idempotency_key, fingerprint, business_date, transaction_id, created_at, expires_at)
    SELECT client, key, sha256(key::bytea), $3::date, id, at, at + interval '24 hours' FROM payment
), guarded AS (
    INSERT INTO order_guards (client_id, order_id, business_date, transaction_id)
    SELECT client, order_id, $3::date, id FROM payment
), inserted AS (
    INSERT INTO transactions
        (business_date, transaction_id, kind, status, evidence, resolution_method, resolution_policy, decision,
         needs_review, client_id, idempotency_key, order_id, account_masked, account_hash, amount, response_code,
         response_message, approval_number, reason, elapsed_us, requested_at, adopt_at, resolve_attempts, not_found,
         asked, correlation_id, trace_id)
    SELECT $3::date, id, 'PAYMENT', 'REQUESTED', '', '', 'NET_CANCEL', '',
           false, client, key, order_id, '123456****1234', account, 1000 + n, '',
           '', '', '', 0, at, at + interval '12 s', 0, 0,
           false, md5('correlation' || id), md5('trace' || id)
    FROM payment
    RETURNING business_date, transaction_id, requested_at, trace_id
)
INSERT INTO transaction_events
    (business_date, transaction_id, at, from_status, to_status, evidence, actor, instance, detail, trace_id)
SELECT business_date, transaction_id, requested_at, '', 'REQUESTED', '', 'payment', 'payment-host-1-4711', '', trace_id
FROM inserted;
