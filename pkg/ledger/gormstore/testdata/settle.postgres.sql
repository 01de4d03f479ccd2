-- The outcome of a batch: of a thousand payments one stays UNKNOWN, and thirty are
-- declined. $1 is the number of the first, $2 how many, $3 the business day.
WITH ended AS (
    UPDATE transactions SET
        status = CASE WHEN amount % 1000 = 7 THEN 'UNKNOWN' WHEN amount % 1000 < 37 THEN 'FAILED' ELSE 'SUCCESS' END,
        evidence = CASE WHEN amount % 1000 = 7 THEN '' ELSE 'ANSWERED' END,
        response_code = CASE WHEN amount % 1000 = 7 THEN '' WHEN amount % 1000 < 37 THEN '0051' ELSE '0000' END,
        response_message = CASE WHEN amount % 1000 = 7 THEN '' WHEN amount % 1000 < 37 THEN '잔액부족' ELSE '정상처리' END,
        approval_number = CASE WHEN amount % 1000 < 37 THEN '' ELSE lpad(amount::text, 11, '0') END,
        reason = CASE WHEN amount % 1000 = 7 THEN 'no answer came in time' ELSE '' END,
        elapsed_us = 41234, sent_at = requested_at + interval '2 ms',
        responded_at = CASE WHEN amount % 1000 <> 7 THEN requested_at + interval '41 ms' END,
        next_resolve_at = CASE WHEN amount % 1000 = 7 THEN requested_at + interval '3 s' END
    WHERE business_date = $3::date
        AND transaction_id >= 'GWMNU' || to_char($3::date, 'YYYYMMDD') || lpad($1::bigint::text, 9, '0')
        AND transaction_id < 'GWMNU' || to_char($3::date, 'YYYYMMDD') || lpad(($1::bigint + $2::bigint)::text, 9, '0')
    RETURNING business_date, transaction_id, client_id, order_id, status, evidence, reason, requested_at, trace_id
), freed AS (
    DELETE FROM order_guards USING ended
    WHERE order_guards.client_id = ended.client_id AND order_guards.order_id = ended.order_id AND status = 'FAILED'
)
INSERT INTO transaction_events
    (business_date, transaction_id, at, from_status, to_status, evidence, actor, instance, detail, trace_id)
SELECT business_date, transaction_id, requested_at + interval '42 ms', 'REQUESTED', status, evidence,
       'payment', 'payment-host-1-4711', reason, trace_id
FROM ended;
