package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"  //nolint:depguard // what the service answers with is tested
	"google.golang.org/grpc/status" //nolint:depguard // what the service answers with is tested

	"github.com/gwanmun/gwanmun/bench/edge"
	"github.com/gwanmun/gwanmun/bench/instant"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

func TestMain(m *testing.M) { os.Exit(postgrestest.Main(m)) }

// open is a service on a new book, whose core answers unless it is dead.
func open(t *testing.T, dsn string, dead, tuned bool) *service {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	if dead {
		cancel()
	}
	go func() { served <- instant.Serve(ctx, listener) }()
	b, err := openBook(t.Context(), dsn, 4, tuned)
	if err != nil {
		t.Fatal(err)
	}
	core := edge.Dial(listener.Addr().String())
	t.Cleanup(func() {
		cancel()
		for _, err := range []error{<-served, core.Close(), b.Close()} {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return &service{book: b, core: core, logger: slog.New(slog.DiscardHandler)}
}

// onBoth runs a test over both databases, and with GORM as it comes and tuned.
func onBoth(t *testing.T, test func(t *testing.T, dsn string, tuned bool)) {
	for _, tuned := range []bool{false, true} {
		t.Run(fmt.Sprintf("sqlite, tuned %t", tuned), func(t *testing.T) {
			test(t, "sqlite:"+filepath.Join(t.TempDir(), "book.db"), tuned)
		})
		t.Run(fmt.Sprintf("postgresql, tuned %t", tuned), func(t *testing.T) { test(t, postgrestest.DSN(t), tuned) })
	}
}

func request(key string) *paymentv1.CreatePaymentRequest {
	return &paymentv1.CreatePaymentRequest{IdempotencyKey: key, AccountNumber: "12345678901234", Amount: 1000}
}

// rows is how many payments are in that state.
func (s *service) rows(t *testing.T, state string) (n int64) {
	t.Helper()
	if err := s.book.db.Model(&payment{}).Where("status = ?", state).Count(&n).Error; err != nil {
		t.Fatal(err)
	}
	return n
}

func TestCreatePayment_EachHasItsRow(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string, tuned bool) {
		s := open(t, dsn, false, tuned)
		const callers, each = 8, 5
		var calling sync.WaitGroup
		for caller := range callers {
			calling.Go(func() {
				for n := range each {
					res, err := s.CreatePayment(t.Context(), request(fmt.Sprintf("key-%d-%d", caller, n)))
					if err != nil || res.GetTransaction().GetStatus() != ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS {
						t.Errorf("%v, error %v", res, err)
					}
				}
			})
		}
		calling.Wait()
		if n := s.rows(t, success); n != callers*each {
			t.Errorf("%d rows", n)
		}
	})
}

func TestCreatePayment_KeyIsUsedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string, tuned bool) {
		s := open(t, dsn, false, tuned)
		for _, want := range []codes.Code{codes.OK, codes.AlreadyExists} {
			if _, err := s.CreatePayment(t.Context(), request("key")); status.Code(err) != want {
				t.Errorf("error %v, want %s", err, want)
			}
		}
		if n := s.rows(t, success); n != 1 {
			t.Errorf("%d rows", n)
		}
	})
}

func TestCreatePayment_DeadCoreLeavesItUnknown(t *testing.T) {
	s := open(t, "sqlite:"+filepath.Join(t.TempDir(), "book.db"), true, false)
	if _, err := s.CreatePayment(t.Context(), request("key")); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("error %v", err)
	}
	if n := s.rows(t, unknown); n != 1 {
		t.Errorf("%d rows", n)
	}
}

func TestCreatePayment_RefusesWhatIsOutOfBounds(t *testing.T) {
	s := open(t, "sqlite:"+filepath.Join(t.TempDir(), "book.db"), false, false)
	for name, change := range map[string]func(*paymentv1.CreatePaymentRequest){
		"no key":     func(r *paymentv1.CreatePaymentRequest) { r.IdempotencyKey = "" },
		"no account": func(r *paymentv1.CreatePaymentRequest) { r.AccountNumber = "x" },
		"no amount":  func(r *paymentv1.CreatePaymentRequest) { r.Amount = 0 },
		"too much":   func(r *paymentv1.CreatePaymentRequest) { r.Amount = maxAmount + 1 },
	} {
		r := request("key")
		change(r)
		if _, err := s.CreatePayment(t.Context(), r); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
