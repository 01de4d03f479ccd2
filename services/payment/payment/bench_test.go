package payment_test

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

// instantCore approves everything at once.
type instantCore struct{}

// Admits implements payment.Core.
func (instantCore) Admits(corelink.Kind) error { return nil }

// Exchange implements payment.Core.
func (instantCore) Exchange(_ context.Context, call corelink.Call) corelink.Result {
	id, err := idOf(call)
	res := corelink.Result{Sent: corelink.SentAll, SentAt: time.Now(), Err: err}
	if err == nil && call.Ready != nil {
		res.Err = call.Ready()
	}
	buf := make([]byte, 0, telegram.AnswerLength)
	message := frame.Text{Value: "OK"}
	if call.Kind == corelink.Inquiry {
		res.Answer, err = telegram.BalanceAnswer{TranID: id, Balance: 5000, ResponseCode: "0000", Message: message}.AppendTo(buf)
	} else {
		res.Answer, err = telegram.PaymentAnswer{TranID: id, ResponseCode: "0000", Message: message, ApprovalNo: 42}.AppendTo(buf)
	}
	if err == nil {
		err = call.Check(res.Answer)
	}
	if err != nil {
		panic(err)
	}
	res.AnsweredAt = time.Now()
	return res
}

// forgetfulStore keeps nothing, so that a benchmark measures the service.
type forgetfulStore struct{ *memstore.Store }

// CreateIntent implements ledger.Writer.
func (forgetfulStore) CreateIntent(_ context.Context, in ledger.Intent) (ledger.Admission, error) {
	row, err := in.Row(time.Now())
	return ledger.Admission{Transaction: row, Created: true}, err
}

// Transition implements ledger.Writer.
func (forgetfulStore) Transition(_ context.Context, c ledger.Change) (ledger.Transaction, error) {
	return ledger.Transaction{ID: c.ID, Status: c.To, Evidence: c.Evidence, Answer: c.Answer}, nil
}

// Record implements ledger.Writer.
func (forgetfulStore) Record(context.Context, []ledger.Transaction, ledger.Actor) error { return nil }

func benchService(b *testing.B) (*payment.Service, account.Number) {
	b.Helper()
	key, err := ledger.ParseHashKey("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")
	if err != nil {
		b.Fatal(err)
	}
	n, err := account.Parse("12345678901234")
	if err != nil {
		b.Fatal(err)
	}
	service := payment.New(payment.Options{
		Flags: flags, Store: forgetfulStore{memstore.New(time.Now)}, HashKey: key, Core: instantCore{}, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler), Registry: prometheus.NewRegistry(), Instance: "payment-bench",
	})
	b.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := service.Drain(ctx); err != nil {
			b.Error(err)
		}
	})
	b.ReportAllocs()
	return service, n
}

// BenchmarkCreate is what a payment costs in the service itself: neither ledger
// nor core nor gRPC.
func BenchmarkCreate(b *testing.B) {
	service, n := benchService(b)
	var keys atomic.Int64
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, err := service.Create(context.Background(), payment.Request{
				Client: client, Key: ledger.IdempotencyKey(strconv.FormatInt(keys.Add(1), 10)), Account: n, Amount: 1000,
				Policy: ledger.PolicyNetCancel, CorrelationID: "corr",
			})
			if err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkBalance is what an inquiry costs in the service itself.
func BenchmarkBalance(b *testing.B) {
	service, n := benchService(b)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := service.Balance(context.Background(), payment.BalanceRequest{Client: client, Account: n, CorrelationID: "corr"}); err != nil {
				b.Error(err)
			}
		}
	})
}
