package grpcapi

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"

	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// CallbackFlags say whom the core calls back, and how well it does it.
type CallbackFlags struct {
	Addr string         `name:"addr" type:"hostport" placeholder:"HOST:PORT" help:"The reconciler, to be called when a late payment is done; unset, nobody is called."`
	Mode string         `name:"mode" enum:"once,twice,early,reversed,stray" default:"once" help:"How the calls come: once, twice, early (when the payment comes, and when it is done), reversed (of those that are done within a moment, the last first), or stray (with calls about payments that nobody knows)."`
	Key  cmdline.Secret `name:"key" placeholder:"KEY" help:"API key of role core to call with: the key or file:PATH; unset, none is sent."`
	CA   string         `name:"ca" placeholder:"FILE" help:"Who signs the reconciler's certificate, in PEM; unset, the call is not over TLS."`
}

// Validate reports what is wrong with the settings, in one line.
func (f *CallbackFlags) Validate() error {
	if f.Addr == "" && (f.Key.Reveal() != "" || f.CA != "") {
		return errors.New("--callback-key and --callback-ca need --callback-addr")
	}
	return nil
}

const (
	// callbackBacklog is how many calls may wait; what comes on top is not made, as
	// a bank's host would not let its customers wait for its webhooks.
	callbackBacklog = 1024
	// callbackTime bounds one call.
	callbackTime = 2 * time.Second
	// callbackMoment is how long calls are collected that are made in reverse.
	callbackMoment = 200 * time.Millisecond
)

// call is one call that is to be made.
type call struct {
	id   string
	code string
}

// Callback calls the reconciler back about payments that were late. It is a
// simulator.Late: whoever tells it of one does not wait.
type Callback struct {
	flags CallbackFlags
	log   *slog.Logger
	calls chan call
	conn  *grpc.ClientConn // nil when nobody is called
	key   string
}

// NewCallback returns a Callback, which calls while Run runs. It reads the files
// that the flags name and connects to nothing yet.
func NewCallback(f CallbackFlags, logger *slog.Logger) (*Callback, error) {
	c := &Callback{flags: f, log: logger, calls: make(chan call, callbackBacklog)}
	if f.Addr == "" {
		return c, nil
	}
	var err error
	if c.key, err = f.key(); err != nil {
		return nil, err
	}
	transport, err := f.transport()
	if err != nil {
		return nil, err
	}
	c.conn, err = grpc.NewClient("passthrough:///"+f.Addr, grpc.WithTransportCredentials(transport), grpc.WithDisableServiceConfig())
	if err != nil {
		return nil, fmt.Errorf("--callback-addr: %w", err)
	}
	return c, nil
}

func (f *CallbackFlags) key() (string, error) {
	path, isFile := strings.CutPrefix(f.Key.Reveal(), "file:")
	if !isFile {
		return path, nil
	}
	text, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return "", fmt.Errorf("--callback-key: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

func (f *CallbackFlags) transport() (credentials.TransportCredentials, error) {
	if f.CA == "" {
		return insecure.NewCredentials(), nil
	}
	pem, err := os.ReadFile(f.CA)
	if err != nil {
		return nil, fmt.Errorf("--callback-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("--callback-ca: no certificate in the file")
	}
	return credentials.NewTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}), nil
}

// Begins implements simulator.Late.
func (c *Callback) Begins(id tranid.ID) {
	if c.flags.Mode == "early" {
		c.enqueue(call{id: string(id)})
	}
}

// Ends implements simulator.Late.
func (c *Callback) Ends(id tranid.ID, code string) {
	if c.flags.Mode == "stray" {
		c.enqueue(call{id: stray(id), code: code})
		c.enqueue(call{id: "no transaction of anybody", code: code})
	}
	c.enqueue(call{id: string(id), code: code})
	if c.flags.Mode == "twice" {
		c.enqueue(call{id: string(id), code: code})
	}
}

// stray is an ID of the day that is not given out before its last millisecond.
func stray(id tranid.ID) string { return string(tranid.New(id.Date(), 999_999_999)) }

func (c *Callback) enqueue(one call) {
	if c.conn == nil {
		return
	}
	select {
	case c.calls <- one:
	default:
		c.log.Warn("callback dropped: too many wait", "transaction_id", one.id)
	}
}

// Run calls until ctx is done, one after the other, and disconnects. A call that
// fails is not repeated: the reconciler asks without being called.
func (c *Callback) Run(ctx context.Context) {
	if c.conn == nil {
		return
	}
	defer func() { _ = c.conn.Close() }()
	client := reconciliationv1.NewCallbackServiceClient(c.conn)
	for {
		select {
		case <-ctx.Done():
			return
		case first := <-c.calls:
			for _, one := range c.batch(ctx, first) {
				c.call(ctx, client, one)
			}
		}
	}
}

// batch is what is called about next, in its order.
func (c *Callback) batch(ctx context.Context, first call) []call {
	calls := []call{first}
	if c.flags.Mode != "reversed" {
		return calls
	}
	moment := time.NewTimer(callbackMoment)
	defer moment.Stop()
	for len(calls) < callbackBacklog {
		select {
		case next := <-c.calls:
			calls = append(calls, next)
			continue
		case <-moment.C:
		case <-ctx.Done():
		}
		break
	}
	slices.Reverse(calls)
	return calls
}

func (c *Callback) call(ctx context.Context, client reconciliationv1.CallbackServiceClient, one call) {
	ctx, stop := context.WithTimeout(ctx, callbackTime)
	defer stop()
	if c.key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "x-api-key", c.key)
	}
	req := &reconciliationv1.NotifyOutcomeRequest{TransactionId: one.id}
	if one.code != "" {
		req.ResponseCode = &one.code
	}
	if _, err := client.NotifyOutcome(ctx, req); err != nil {
		c.log.WarnContext(ctx, "callback failed", "transaction_id", one.id, "error", err)
		return
	}
	c.log.DebugContext(ctx, "called back", "transaction_id", one.id, "response_code", one.code)
}
