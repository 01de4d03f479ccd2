package rpcserver_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

const (
	shopKey = "shop-key-c0ffee"
	deskKey = "desk-key-c0ffee"
	coreKey = "core-key-c0ffee"
)

// clientsFile lists shop (payment), desk (ops) and bank (core).
func clientsFile(t *testing.T) string {
	t.Helper()
	var entries []string
	for _, c := range [][3]string{{"shop", shopKey, "payment"}, {"desk", deskKey, "ops"}, {"bank", coreKey, "core"}} {
		sum := sha256.Sum256([]byte(c[1]))
		entries = append(entries, fmt.Sprintf(`{"id": %q, "key_sha256": %q, "roles": [%q]}`, c[0], hex.EncodeToString(sum[:]), c[2]))
	}
	path := filepath.Join(t.TempDir(), "clients.json")
	if err := os.WriteFile(path, []byte(`{"clients": [`+strings.Join(entries, ",")+`]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// told is a service that tells who it thinks has called.
func told() *payments {
	return &payments{create: func(ctx context.Context, _ *paymentv1.CreatePaymentRequest) (*paymentv1.CreatePaymentResponse, error) {
		return &paymentv1.CreatePaymentResponse{Transaction: &ledgerv1.Transaction{
			ClientId: string(rpcserver.ClientID(ctx)), NeedsReview: rpcserver.May(ctx, access.RoleOps),
		}}, nil
	}}
}

func guarded(t *testing.T, change func(*rpcserver.Flags)) *edge {
	t.Helper()
	flags := rpcserver.Flags{ClientsFile: clientsFile(t)}
	if change != nil {
		change(&flags)
	}
	return newEdgeWith(t, told(), nil, flags)
}

func showing(t *testing.T, pairs ...string) context.Context {
	return metadata.AppendToOutgoingContext(t.Context(), pairs...)
}

func TestKeys_HowTheyAreShown(t *testing.T) {
	e := guarded(t, nil)
	for name, c := range map[string]struct {
		header []string
		client string
	}{
		"bearer":                {[]string{"authorization", "Bearer " + shopKey}, "shop"},
		"bearer in other case":  {[]string{"authorization", "bEARER " + shopKey}, "shop"},
		"x-api-key":             {[]string{"x-api-key", shopKey}, "shop"},
		"none":                  {nil, ""},
		"empty":                 {[]string{"x-api-key", ""}, ""},
		"bearer of nothing":     {[]string{"authorization", "Bearer "}, ""},
		"another scheme":        {[]string{"authorization", "Basic " + shopKey}, ""},
		"no scheme":             {[]string{"authorization", shopKey}, ""},
		"unknown":               {[]string{"x-api-key", shopKey + "x"}, ""},
		"part of a key":         {[]string{"x-api-key", shopKey[:len(shopKey)-1]}, ""},
		"its digest":            {[]string{"x-api-key", func() string { s := sha256.Sum256([]byte(shopKey)); return hex.EncodeToString(s[:]) }()}, ""},
		"the same twice":        {[]string{"x-api-key", shopKey, "x-api-key", shopKey}, ""},
		"two ways":              {[]string{"x-api-key", shopKey, "authorization", "Bearer " + deskKey}, ""},
		"a client's name":       {[]string{"x-api-key", "shop"}, ""},
		"another after a comma": {[]string{"x-api-key", shopKey + "," + deskKey}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			resp, err := e.payments().CreatePayment(showing(t, c.header...), good())
			switch {
			case c.client != "":
				if err != nil || resp.GetTransaction().GetClientId() != c.client || resp.GetTransaction().GetNeedsReview() {
					t.Errorf("%v, error %v", resp, err)
				}
			case status.Code(err) != codes.Unauthenticated || info(err).GetReason() != "UNAUTHENTICATED":
				t.Errorf("error %v", err)
			}
		})
	}
	if strings.Contains(e.log.text(), "c0ffee") {
		t.Error("a key is in the log")
	}
}

func TestKeys_WhoMayCallWhat(t *testing.T) {
	e := guarded(t, nil)
	calls := map[string]func(context.Context) error{
		"payment": func(ctx context.Context) error { _, err := e.payments().CreatePayment(ctx, good()); return err },
		"ledger": func(ctx context.Context) error {
			_, err := ledgerv1.NewLedgerServiceClient(e.conn).ListTransactions(ctx, &ledgerv1.ListTransactionsRequest{})
			return err
		},
		"health": func(ctx context.Context) error {
			_, err := grpc_health_v1.NewHealthClient(e.conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
			return err
		},
		"reflection": func(ctx context.Context) error {
			stream, err := grpc_reflection_v1.NewServerReflectionClient(e.conn).ServerReflectionInfo(ctx)
			if err == nil {
				err = stream.CloseSend()
			}
			if err == nil {
				_, err = stream.Recv()
			}
			if err != nil && err.Error() == "EOF" {
				return nil
			}
			return err
		},
		"unknown": func(ctx context.Context) error {
			return e.conn.Invoke(ctx, "/gwanmun.payment.v1.PaymentService/Steal", &paymentv1.GetPaymentRequest{}, &paymentv1.GetPaymentResponse{})
		},
		"a bad request": func(ctx context.Context) error {
			_, err := e.payments().CreatePayment(ctx, &paymentv1.CreatePaymentRequest{})
			return err
		},
	}
	const ok, no, who, invalid = codes.OK, codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument
	for key, want := range map[string]map[string]codes.Code{
		"":      {"payment": who, "ledger": who, "health": ok, "reflection": who, "unknown": who, "a bad request": who},
		"wrong": {"payment": who, "ledger": who, "health": ok, "reflection": who, "unknown": who, "a bad request": who},
		shopKey: {"payment": ok, "ledger": codes.Unimplemented, "health": ok, "reflection": no, "unknown": no, "a bad request": invalid},
		deskKey: {"payment": no, "ledger": codes.Unimplemented, "health": ok, "reflection": ok, "unknown": no, "a bad request": no},
		coreKey: {"payment": no, "ledger": no, "health": ok, "reflection": no, "unknown": no, "a bad request": no},
	} {
		for call, code := range want {
			ctx := t.Context()
			if key != "" {
				ctx = showing(t, "x-api-key", key)
			}
			if err := calls[call](ctx); status.Code(err) != code {
				t.Errorf("%s with key %q: %v, want %s", call, key, err, code)
			}
		}
	}
}

func TestKeys_WithoutAClientsFileEveryoneMayDoAll(t *testing.T) {
	e := newEdge(t, told(), nil)
	resp, err := e.payments().CreatePayment(showing(t, "x-api-key", "whatever"), good())
	if err != nil || resp.GetTransaction().GetClientId() != "local" || !resp.GetTransaction().GetNeedsReview() {
		t.Errorf("%v, error %v", resp, err)
	}
}

func number(n int) *int { return &n }

func TestLimits_AreEachClientsOwn(t *testing.T) {
	e := guarded(t, func(f *rpcserver.Flags) { f.RateLimit, f.RateBurst = number(1), number(2) })
	pay := func() error {
		_, err := e.payments().CreatePayment(showing(t, "x-api-key", shopKey), good())
		return err
	}
	for range 2 {
		if err := pay(); err != nil {
			t.Fatal(err)
		}
	}
	err := pay()
	retry := detail[*errdetails.RetryInfo](err)
	if info(err).GetReason() != "RATE_LIMITED" || status.Code(err) != codes.ResourceExhausted || retry.GetRetryDelay().AsDuration() <= 0 {
		t.Errorf("error %v, retry %v", err, retry)
	}
	if _, err := ledgerv1.NewLedgerServiceClient(e.conn).ListTransactions(showing(t, "x-api-key", deskKey), &ledgerv1.ListTransactionsRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("another client: %v", err)
	}
	if _, err := grpc_health_v1.NewHealthClient(e.conn).Check(showing(t, "x-api-key", shopKey), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("health: %v", err)
	}
	_, page := e.fetch(t, "GET", "/metrics")
	for _, line := range []string{
		`gwanmun_ratelimit_consumed_total{client="shop"} 2`, `gwanmun_ratelimit_rejected_total{client="shop"} 1`,
		`gwanmun_ratelimit_consumed_total{client="desk"} 1`,
	} {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("no %s in the metrics", line)
		}
	}
}

func TestLimits_CallsUnderWay(t *testing.T) {
	release := make(chan struct{})
	begun := make(chan struct{})
	p := &payments{watch: func(*paymentv1.WatchPaymentRequest, grpc.ServerStreamingServer[paymentv1.WatchPaymentResponse]) error {
		begun <- struct{}{}
		<-release
		return nil
	}}
	e := newEdgeWith(t, p, nil, rpcserver.Flags{MaxInFlight: number(1)})
	stream, err := e.payments().WatchPayment(t.Context(), goodWatch())
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	second, err := e.payments().WatchPayment(t.Context(), goodWatch())
	if err == nil {
		_, err = second.Recv()
	}
	if info(err).GetReason() != "RATE_LIMITED" {
		t.Errorf("error %v", err)
	}
	close(release)
	if _, err := stream.Recv(); err == nil || err.Error() != "EOF" {
		t.Errorf("error %v", err)
	}
}

func TestFlags_LimitsThatCannotBe(t *testing.T) {
	for name, f := range map[string]rpcserver.Flags{
		"--rate-limit": {RateLimit: number(-1)}, "--rate-burst": {RateLimit: number(5), RateBurst: number(0)}, "--rate-burst is": {RateBurst: number(5)}, "--max-in-flight": {MaxInFlight: number(-1)},
	} {
		if err := f.Validate(); err == nil || !strings.HasPrefix(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for _, f := range []rpcserver.Flags{{}, {ClientsFile: "x"}, {RateLimit: number(0)}, {RateLimit: number(1)}} {
		if err := f.Validate(); err != nil {
			t.Errorf("%+v: %v", f, err)
		}
	}
}

func TestNew_RefusesAClientsFileThatCannotBeRead(t *testing.T) {
	o := options()
	o.Flags.ClientsFile = filepath.Join(t.TempDir(), "none.json")
	_, err := rpcserver.New(o)
	if _, usage := err.(interface{ IsUsage() }); !usage || !strings.HasPrefix(err.Error(), "--clients-file") {
		t.Errorf("error %v", err)
	}
}

func TestNew_RefusesAServiceWithoutRoles(t *testing.T) {
	o := options()
	o.Services = nil
	if _, err := rpcserver.New(o); err == nil {
		t.Error("no error")
	}
}
