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

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/rpcerr"
)

// maxLoggedFields is how many wrong fields of a request a log line names.
const maxLoggedFields = 8

// logCall writes the one line of an rpc. The cause of an error stands here and
// nowhere else. Every payment pays for it: a line names no place in the code, so
// none is looked up, and what all good calls of a method have in common is
// written once.
func (s *Server) logCall(ctx context.Context, c *call, code codes.Code, elapsed time.Duration) {
	reason, refused := rpcerr.Reason(ctx, c.err)
	describeCall(ctx, c, reason, refused)
	level := levelOf(c, code, reason)
	lines := s.logger.Handler()
	if !lines.Enabled(ctx, level) {
		return
	}
	line := slog.NewRecord(time.Now(), level, "rpc", 0)
	if code == codes.OK && c.method.good != nil {
		lines = c.method.good
	} else {
		line.AddAttrs(methodAndCode(c.method, code)...)
	}
	line.AddAttrs(
		slog.Float64("elapsed_ms", float64(elapsed.Microseconds())/1000),
		slog.String("client_id", string(c.client.ID)),
	)
	if p, ok := peer.FromContext(ctx); ok {
		line.AddAttrs(slog.String("peer", p.Addr.String()))
	}
	if refused {
		line.AddAttrs(slog.String("reason", reason.String()))
	}
	if id := transactionID(c); id != "" {
		line.AddAttrs(slog.String("transaction_id", id))
	}
	if reason == ledger.ReasonInvalidRequest {
		line.AddAttrs(slog.String("fields", fieldNames(c)))
	}
	if level >= slog.LevelWarn {
		line.AddAttrs(slog.String("error", c.err.Error()))
	}
	_ = lines.Handle(ctx, line) // there is nowhere to tell that the log cannot be written
}

// methodAndCode is how the line of an rpc begins.
func methodAndCode(m *method, code codes.Code) []slog.Attr {
	return []slog.Attr{slog.String("method", m.name), slog.String("code", code.String())}
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
