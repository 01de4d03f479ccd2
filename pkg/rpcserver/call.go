package rpcserver

import (
	"context"
	"log/slog"
	"sync/atomic"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// method is what the server knows about one rpc that it serves. The set is
// closed when the server starts, so that nothing a caller sends can make it
// grow.
type method struct {
	// name is without the slash in front.
	name string
	// foreign is true for rpcs that gRPC itself brings along: health and
	// reflection. They do not know how this server stops.
	foreign bool
	// roles are those of which a caller must have one; open is a method that
	// asks nobody who he is.
	roles access.Roles
	open  bool
	// good writes the lines of calls that end well, as methodAndCode has them
	// begin; nil for what is not served.
	good slog.Handler
	// series are its metrics; nil for what is not served, which is no unary rpc.
	series *series
	// running counts the calls that have not ended.
	running atomic.Int64
}

// call is one rpc on its way through the interceptors. It is written by the
// goroutine of the rpc alone.
type call struct {
	method *method
	client access.Client
	// err is what the use case returned, before rpcerr made it a status.
	err error
	// transactionID is that of the row that the answer is about, if any.
	transactionID string
	// stopping is closed when the server begins to stop.
	stopping <-chan struct{}
}

type callKey struct{}

func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// ClientID is who called: `local` where nobody has to say who he is.
func ClientID(ctx context.Context) ledger.ClientID { return clientOf(ctx).ID }

// May reports whether the caller has the role.
func May(ctx context.Context, role access.Role) bool { return clientOf(ctx).Roles.Has(role) }

// As is a context in which the client is the caller, for a call that comes from
// no rpc.
func As(ctx context.Context, client access.Client) context.Context {
	return context.WithValue(ctx, callKey{}, &call{method: &method{}, client: client})
}

func clientOf(ctx context.Context) access.Client {
	if c := callOf(ctx); c != nil {
		return c.client
	}
	return access.Everyone()
}

// Stopping is closed when the server that serves ctx begins to stop. A handler
// of a stream should then end the stream, so that the stop need not wait for
// it. Where ctx belongs to no rpc, the channel is nil and never ready.
func Stopping(ctx context.Context) <-chan struct{} {
	if c := callOf(ctx); c != nil {
		return c.stopping
	}
	return nil
}
