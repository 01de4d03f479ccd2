package grpcapi_test

import (
	"strconv"
	"sync/atomic"
	"testing"

	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// BenchmarkCreatePayment is what a payment costs from the socket on, client and
// server together: a core that answers at once, a ledger in memory.
func BenchmarkCreatePayment(b *testing.B) {
	g := openGate(b, "0000")
	var keys atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			req := good()
			req.IdempotencyKey = strconv.FormatInt(keys.Add(1), 10)
			if _, err := g.CreatePayment(b.Context(), req); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkGetBalance is what an inquiry costs from the socket on.
func BenchmarkGetBalance(b *testing.B) {
	g := openGate(b, "0000")
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := g.GetBalance(b.Context(), &paymentv1.GetBalanceRequest{AccountNumber: "12345678901234"}); err != nil {
				b.Error(err)
			}
		}
	})
}
