// Package rpcerr turns the errors of use cases into gRPC statuses. It is the
// only place that does: what a caller can read of an error is decided here, and
// here alone.
package rpcerr

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledgerpb"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
	"github.com/gwanmun/gwanmun/proto/reason"
)

// Domain is that of our google.rpc.ErrorInfo.
const Domain = reason.Domain

// The metadata of our google.rpc.ErrorInfo.
const (
	metaTransactionID = "transaction_id"
	metaLedgerStatus  = "ledger_status"
	metaCorrelationID = "correlation_id"
	metaResponseCode  = "response_code"
	metaReplayed      = "replayed"
)

const (
	// maxViolations is how many fields of a request an answer names. Details
	// travel in a trailer, which proxies bound.
	maxViolations = 16
	// maxText is the longest text of ours in an answer, in bytes.
	maxText = 256
)

// ToStatus is the status by which the rpc of ctx ends with err:
//
//   - a *ledger.Refusal, also a wrapped one: the code and message of its
//     reason, and its details;
//   - an error that is a gRPC status itself, as those are that grpc makes: that
//     status;
//   - the end of the caller's own context: DEADLINE_EXCEEDED or CANCELED,
//     without our ErrorInfo, because something may have left;
//   - anything else: INTERNAL, with nothing of the error in it.
//
// A nil error is OK.
func ToStatus(ctx context.Context, err error) *status.Status {
	if err == nil {
		return nil
	}
	if refusal := refusalIn(err); refusal != nil {
		return refused(ctx, refusal)
	}
	if st, ok := made(err); ok {
		return st
	}
	if ended(ctx, err) {
		return callerGone(ctx)
	}
	return refused(ctx, &ledger.Refusal{Reason: ledger.ReasonInternal})
}

// Reason is the reason that ToStatus gives the caller for err; false where it
// gives none of ours.
func Reason(ctx context.Context, err error) (ledger.Reason, bool) {
	if refusal := refusalIn(err); refusal != nil {
		if _, ok := answers[refusal.Reason]; ok {
			return refusal.Reason, true
		}
		return ledger.ReasonInternal, true
	}
	if _, ok := made(err); ok || err == nil || ended(ctx, err) {
		return 0, false
	}
	return ledger.ReasonInternal, true
}

// refusalIn is the refusal that err is or wraps; nil if there is none.
func refusalIn(err error) *ledger.Refusal {
	if err == nil { // most calls: what errors.As is given would be allocated for them, too
		return nil
	}
	var refusal *ledger.Refusal
	if errors.As(err, &refusal) {
		return refusal
	}
	return nil
}

// made is the status that err itself is. One that is merely wrapped belongs to
// another call and is not passed on.
func made(err error) (*status.Status, bool) {
	withStatus, ok := err.(interface{ GRPCStatus() *status.Status })
	if !ok {
		return nil, false
	}
	st := withStatus.GRPCStatus()
	return st, st != nil && st.Code() != codes.OK
}

// ended reports whether err is the end of the caller's own context, and not of
// one of ours.
func ended(ctx context.Context, err error) bool {
	if ctx.Err() == nil {
		return false
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func callerGone(ctx context.Context) *status.Status {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return status.New(codes.DeadlineExceeded, "the deadline passed before the call ended")
	}
	return status.New(codes.Canceled, "the call was canceled")
}

// refused is the status of a refusal. A reason that the table does not have is
// a fault of ours, never another reason.
func refused(ctx context.Context, r *ledger.Refusal) *status.Status {
	why := r.Reason
	entry, ok := answers[why]
	if !ok {
		why = ledger.ReasonInternal
		entry = answers[why]
	}
	st := status.New(entry.code, entry.message)
	// No detail of ours can fail to marshal but for bad UTF-8 in a stored row;
	// the code and the reason stand even then.
	for _, all := range [][]protoadapt.MessageV1{
		details(ctx, why, r),
		{errorInfo(ctx, why, r)},
		{errorInfo(ctx, why, &ledger.Refusal{})},
	} {
		if detailed, err := st.WithDetails(all...); err == nil {
			return detailed
		}
	}
	return st
}

func details(ctx context.Context, why ledger.Reason, r *ledger.Refusal) []protoadapt.MessageV1 {
	out := []protoadapt.MessageV1{errorInfo(ctx, why, r)}
	if r.Transaction != nil {
		out = append(out, ledgerpb.Transaction(r.Transaction))
	}
	if len(r.Fields) > 0 {
		out = append(out, badRequest(r.Fields))
	}
	if r.RetryAfter > 0 {
		out = append(out, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.RetryAfter)})
	}
	return out
}

// errorInfo has the metadata that apply.
func errorInfo(ctx context.Context, why ledger.Reason, r *ledger.Refusal) *errdetails.ErrorInfo {
	metadata := make(map[string]string, 5)
	if id := telemetry.CorrelationID(ctx); id != "" {
		metadata[metaCorrelationID] = id
	}
	if r.Transaction != nil {
		metadata[metaTransactionID] = string(r.Transaction.ID)
		metadata[metaLedgerStatus] = r.Transaction.Status.String()
		if code := r.Transaction.Answer.Code; code != "" {
			metadata[metaResponseCode] = code
		}
	}
	if r.Replayed {
		metadata[metaReplayed] = "true"
	}
	return &errdetails.ErrorInfo{Reason: why.String(), Domain: Domain, Metadata: metadata}
}

func badRequest(fields []ledger.FieldViolation) *errdetails.BadRequest {
	fields = fields[:min(len(fields), maxViolations)]
	violations := make([]*errdetails.BadRequest_FieldViolation, 0, len(fields))
	for _, f := range fields {
		violations = append(violations, &errdetails.BadRequest_FieldViolation{
			Field:       bounded(f.Field),
			Description: bounded(f.Description),
		})
	}
	return &errdetails.BadRequest{FieldViolations: violations}
}

// bounded is valid UTF-8 of at most maxText bytes, cut between characters.
func bounded(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxText {
		return s
	}
	cut := maxText
	for !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut]
}
