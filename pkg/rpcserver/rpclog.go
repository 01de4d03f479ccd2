package rpcserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/rpcerr"
)

// maxLoggedFields is how many wrong fields of a request a log line names.
const maxLoggedFields = 8

// logCall writes the one line of an rpc, through LogAttrs because every payment
// pays for it. The cause of an error stands here and nowhere else.
func (s *Server) logCall(ctx context.Context, elapsed time.Duration, err error) {
	c := callOf(ctx)
	code := status.Code(err)
	reason, refused := rpcerr.Reason(ctx, c.err)
	describeCall(ctx, c, reason, refused)
	level := levelOf(c, code, reason)
	if !s.logger.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 9)
	attrs = append(attrs,
		slog.String("method", c.method.name),
		slog.String("code", code.String()),
		slog.Float64("elapsed_ms", float64(elapsed.Microseconds())/1000),
		slog.String("client_id", string(c.client.ID)),
	)
	if p, ok := peer.FromContext(ctx); ok {
		attrs = append(attrs, slog.String("peer", p.Addr.String()))
	}
	if refused {
		attrs = append(attrs, slog.String("reason", reason.String()))
	}
	if id := transactionID(c); id != "" {
		attrs = append(attrs, slog.String("transaction_id", id))
	}
	if reason == ledger.ReasonInvalidRequest {
		attrs = append(attrs, slog.String("fields", fieldNames(c)))
	}
	if level >= slog.LevelWarn {
		attrs = append(attrs, slog.String("error", c.err.Error()))
	}
	s.logger.LogAttrs(ctx, level, "rpc", attrs...)
}

// levelOf is INFO for what is business, WARN for what is degraded and handled,
// ERROR where a human must act. Probes and reflection that go well are DEBUG.
// It is above INFO only for a call that has an error.
func levelOf(c *call, code codes.Code, reason ledger.Reason) slog.Level {
	switch reason {
	case ledger.ReasonInternal:
		return slog.LevelError
	case ledger.ReasonOutcomeUnknown, ledger.ReasonSendWindowMissed, ledger.ReasonCircuitOpen,
		ledger.ReasonCoreUnreachable, ledger.ReasonLedgerUnavailable, ledger.ReasonLinkSaturated:
		return slog.LevelWarn
	default:
		return levelOfCode(c, code)
	}
}

// levelOfCode is for calls that ended well, or as a matter of business, or with
// a status that is none of ours.
func levelOfCode(c *call, code codes.Code) slog.Level {
	switch {
	case code == codes.OK && c.method.foreign:
		return slog.LevelDebug
	case c.err != nil && (code == codes.Internal || code == codes.Unknown):
		return slog.LevelError
	default:
		return slog.LevelInfo
	}
}

// fieldNames are the names, of the contract's making, of what was wrong with a
// request.
func fieldNames(c *call) string {
	var refusal *ledger.Refusal
	if !errors.As(c.err, &refusal) {
		return ""
	}
	names := make([]string, 0, len(refusal.Fields))
	for _, f := range refusal.Fields[:min(len(refusal.Fields), maxLoggedFields)] {
		names = append(names, f.Field)
	}
	return strings.Join(names, ",")
}

// transactionID is that of the row that an answer or a refusal is about.
func transactionID(c *call) string {
	if c.err == nil {
		return c.transactionID
	}
	var refusal *ledger.Refusal
	if errors.As(c.err, &refusal) && refusal.Transaction != nil {
		return string(refusal.Transaction.ID)
	}
	return c.transactionID
}

// errPanicked is what a panic comes to. Its text is all that the rpc's log line
// says of it; the stack has a line of its own.
var errPanicked = errors.New("the handler panicked")

// recovered counts a panic and logs where it was.
func (s *Server) recovered(ctx context.Context, value any) error {
	s.panics.Inc()
	s.logger.LogAttrs(ctx, slog.LevelError, "rpc panicked",
		slog.String("panic", fmt.Sprint(value)),
		slog.String("stack", string(debug.Stack())),
	)
	return errPanicked
}
