package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/gwanmun/gwanmun/bench/instant"
	"github.com/gwanmun/gwanmun/bench/paired"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// The places of a side's meters: the seconds of CPU time of the service alone and
// of the load generator, and the database transactions that wrote.
const (
	serviceMeter = iota
	generatorMeter
	commitMeter
)

// tally is how many transactions are SUCCESS, in a book or in replies.
type tally struct{ payments, inquiries int64 }

// side is a service that is measured.
type side struct {
	name  string
	conns []connection
	// cpu is the CPU time of all that serves it: service, core and database.
	cpu    func() (time.Duration, error)
	meters []paired.Meter
	// read counts what its book says; nil if it keeps none.
	read func(ctx context.Context) (tally, error)
	// patience is how long a row may be written after its answer.
	patience time.Duration
	// run makes the keys of this run unlike those of others.
	run string

	keys, paid, asked atomic.Int64
	// missing are the rows that earlier comparisons failed for.
	missing tally
}

// operation is what callers do, and how often it writes a row.
type operation struct {
	call func(s *side, c client, account string) func(ctx context.Context) error
	rows float64
}

var (
	// pay makes a payment: its row is written before it is sent and once more
	// after it was answered.
	pay = operation{call: (*side).pay, rows: 2}
	// ask asks for a balance, whose row is written once.
	ask = operation{call: (*side).ask, rows: 1}
)

// paired is the side, with callers that do op over and over.
func (s *side) paired(op operation) paired.Side {
	return paired.Side{Name: s.name, CPU: s.cpu, Meters: s.meters, Caller: func(ctx context.Context, n int) func() error {
		call := op.call(s, s.conns[n%len(s.conns)].caller(), strconv.Itoa(10_000_000_000+n))
		return func() error { return call(ctx) }
	}}
}

// errReply says that a reply is not what was asked for.
var errReply = errors.New("the reply is wrong")

func (s *side) pay(c client, account string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		n := s.keys.Add(1)
		req := &paymentv1.CreatePaymentRequest{
			IdempotencyKey: s.run + "-" + strconv.FormatInt(n, 10), AccountNumber: account, Amount: 1000 + n%9000,
		}
		res, err := c.createPayment(ctx, req)
		if err != nil {
			return err
		}
		t := res.GetTransaction()
		if res.GetReplayed() || t.GetStatus() != ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS || t.GetTransactionId() == "" ||
			t.GetIdempotencyKey() != req.GetIdempotencyKey() || t.GetAmount() != req.GetAmount() {
			return fmt.Errorf("%w: payment %s of %d: %v", errReply, req.GetIdempotencyKey(), req.GetAmount(), res)
		}
		s.paid.Add(1)
		return nil
	}
}

func (s *side) ask(c client, account string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		res, err := c.getBalance(ctx, &paymentv1.GetBalanceRequest{AccountNumber: account})
		if err != nil {
			return err
		}
		if t := res.GetTransaction(); t.GetStatus() != ledgerv1.TransactionStatus_TRANSACTION_STATUS_SUCCESS ||
			t.GetTransactionId() == "" || res.GetBalance() != instant.Balance {
			return fmt.Errorf("%w: balance: %v", errReply, res)
		}
		s.asked.Add(1)
		return nil
	}
}

// How long a row may be written after its answer in a run, and how often that is
// looked at.
const (
	auditWithin = 15 * time.Second
	auditEvery  = 200 * time.Millisecond
)

// errBook says that a book and its service's replies disagree.
var errBook = errors.New("the book does not say what the replies said")

// audit compares the book with the replies: each that was OK has one row that
// says SUCCESS, and nothing else has. What is missing fails one comparison, and not
// those after it.
func (s *side) audit(ctx context.Context) error {
	if s.read == nil {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	again := time.NewTicker(auditEvery)
	defer again.Stop()
	want := tally{payments: s.paid.Load() - s.missing.payments, inquiries: s.asked.Load() - s.missing.inquiries}
	for {
		got, err := s.read(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("read the book of %s: %w", s.name, err)
		case got == want:
			return nil
		}
		select {
		case <-again.C:
		case <-within.Done():
			s.missing.payments += want.payments - got.payments
			s.missing.inquiries += want.inquiries - got.inquiries
			return fmt.Errorf("%s: %w: %d payments and %d inquiries in the book, %d and %d replies",
				s.name, errBook, got.payments, got.inquiries, want.payments, want.inquiries)
		}
	}
}
