package grpcapi

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	reconciliationv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1"

	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

const first, second = tranid.ID("GWMNU20260105000000001"), tranid.ID("GWMNU20260105000000002")

// called is a CallbackService that remembers who called about what.
type called struct {
	reconciliationv1.UnimplementedCallbackServiceServer
	calls chan string
	// holds keeps every call waiting.
	holds chan struct{}
}

func (c *called) NotifyOutcome(ctx context.Context, req *reconciliationv1.NotifyOutcomeRequest) (*reconciliationv1.NotifyOutcomeResponse, error) {
	code := "-"
	if req.ResponseCode != nil {
		code = req.GetResponseCode()
	}
	key := strings.Join(metadata.ValueFromIncomingContext(ctx, "x-api-key"), ",")
	c.calls <- strings.TrimSpace(req.GetTransactionId() + " " + code + " " + key)
	if c.holds != nil {
		select {
		case <-c.holds:
		case <-ctx.Done():
		}
	}
	return &reconciliationv1.NotifyOutcomeResponse{Accepted: true}, nil
}

// serveCalls serves one on a free port, and returns where.
func serveCalls(t *testing.T, c *called) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	reconciliationv1.RegisterCallbackServiceServer(server, c)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	t.Cleanup(func() { server.Stop(); serving.Wait() })
	return listener.Addr().String()
}

// running is a Callback whose Run has ended when the test does.
func running(t *testing.T, f CallbackFlags) *Callback {
	t.Helper()
	c, err := NewCallback(f, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var calling sync.WaitGroup
	calling.Go(func() { c.Run(ctx) })
	t.Cleanup(func() { cancel(); calling.Wait() })
	return c
}

func TestCallback_CallsAsItsModeSays(t *testing.T) {
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		mode, key string
		want      []string
	}{
		{"once", "", []string{string(first) + " 0000", string(second) + " 0051"}},
		{"once", "secret", []string{string(first) + " 0000 secret", string(second) + " 0051 secret"}},
		{"once", "file:" + keyFile, []string{string(first) + " 0000 secret", string(second) + " 0051 secret"}},
		{"twice", "", []string{string(first) + " 0000", string(first) + " 0000", string(second) + " 0051", string(second) + " 0051"}},
		{"early", "", []string{string(first) + " -", string(second) + " -", string(first) + " 0000", string(second) + " 0051"}},
		{"reversed", "", []string{string(second) + " 0051", string(first) + " 0000"}},
		{"stray", "", []string{
			"GWMNU20260105999999999 0000", "no transaction of anybody 0000", string(first) + " 0000",
			"GWMNU20260105999999999 0051", "no transaction of anybody 0051", string(second) + " 0051",
		}},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			server := &called{calls: make(chan string, 10)}
			c := running(t, CallbackFlags{Addr: serveCalls(t, server), Mode: tc.mode, Key: cmdline.NewSecret(tc.key)})
			c.Begins(first)
			c.Begins(second)
			c.Ends(first, "0000")
			c.Ends(second, "0051")
			var got []string
			for range tc.want {
				got = append(got, <-server.calls)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("called %q, want %q", got, tc.want)
			}
		})
	}
}

// Whoever tells of a late payment waits for nobody, though nobody answers and more
// wait than may; a stop ends a call at once.
func TestCallback_HoldsUpNobody(t *testing.T) {
	server := &called{calls: make(chan string, 10), holds: make(chan struct{})}
	c, err := NewCallback(CallbackFlags{Addr: serveCalls(t, server), Mode: "once"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	c.Ends(first, "0000")
	<-server.calls
	start := time.Now()
	for range 2 * callbackBacklog {
		c.Ends(second, "0000")
	}
	if len(c.calls) != callbackBacklog {
		t.Errorf("%d wait", len(c.calls))
	}
	cancel()
	<-ended
	if took := time.Since(start); took > callbackTime {
		t.Errorf("took %s", took)
	}
}

func TestCallback_WithoutAnAddressCallsNobody(t *testing.T) {
	c := running(t, CallbackFlags{Mode: "twice"})
	c.Begins(first)
	c.Ends(first, "0000")
	if len(c.calls) != 0 {
		t.Errorf("%d wait", len(c.calls))
	}
	for _, bad := range []CallbackFlags{{Key: cmdline.NewSecret("key")}, {CA: "ca.pem"}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	for _, bad := range []CallbackFlags{
		{Addr: "127.0.0.1:1", CA: "/no/such/file"}, {Addr: "127.0.0.1:1", Key: cmdline.NewSecret("file:/no/such/file")}, {Addr: "127.0.0.1:1", CA: os.DevNull},
	} {
		if _, err := NewCallback(bad, slog.New(slog.DiscardHandler)); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}
