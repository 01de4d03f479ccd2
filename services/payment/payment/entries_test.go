package payment_test

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/corelink/listing"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
	"github.com/gwanmun/gwanmun/services/payment/payment"
)

// listings is the way to the listing port of a bank, over pipes; with an error,
// to nobody.
func (b *bank) listings(t *testing.T, refused error) *listing.Client {
	t.Helper()
	dial := func(context.Context, string, string) (net.Conn, error) {
		if refused != nil {
			return nil, refused
		}
		near, far := net.Pipe()
		b.conns.Go(func() { b.server.ServeListingConn(b.ctx, far) })
		return near, nil
	}
	flags := (&listing.Flags{ListingAddr: []string{"core:9097"}}).Over(corelink.Flags{
		ReadTimeout: 3 * time.Second, ConnectTimeout: 2 * time.Second, PoolSize: 1, PoolWait: 500 * time.Millisecond,
	})
	link := corelink.New(corelink.Options{
		Flags: flags, Name: listing.Pool, Dial: dial, Now: time.Now, Metrics: corelink.NewMetrics(prometheus.NewRegistry()),
	})
	return listing.New(link, flags, time.Now)
}

// inHouseWithListings is inHouse with a bank whose listing port is struck by the
// fault, if it has an action.
func inHouseWithListings(t *testing.T, fault simulator.Fault, refused error, test func(*testing.T, *house, *bank)) {
	t.Helper()
	var core *bank
	inHouse(t, nil, func(o *payment.Options) {
		core = openBank(t)
		faults := simulator.NewFaults()
		core.server = simulator.NewServer(core.Bank, simulator.Options{Faults: faults})
		if fault.Action != 0 {
			if _, err := faults.Set(fault); err != nil {
				t.Fatal(err)
			}
		}
		o.Listings = core.listings(t, refused)
	}, func(t *testing.T, h *house) {
		test(t, h, core)
		core.end()
		core.conns.Wait()
	})
}

func (h *house) list(ctx context.Context, digits string) (payment.EntriesReply, error) {
	today := tranid.DateOf(time.Now())
	return h.service.Entries(ctx, payment.EntriesRequest{
		Client: client, Account: number(h.t, digits), From: today, To: today, Max: 2, CorrelationID: "corr-1",
	})
}

func TestEntries_Outcomes(t *testing.T) {
	const digits = "12345678901234"
	strikes := func(action simulator.FaultAction) simulator.Fault {
		return simulator.Fault{Action: action, MTI: "0300"}
	}
	truncated, delayed, declined, corrupt := strikes(simulator.FaultTruncate), strikes(simulator.FaultDelay),
		strikes(simulator.FaultResponseCode), strikes(simulator.FaultCorruptField)
	truncated.Bytes, delayed.Delay, declined.ResponseCode, corrupt.Field = 60, 4*time.Second, "0091", "record_count"
	cases := map[string]struct {
		fault    simulator.Fault
		refused  error
		account  string
		status   ledger.Status
		evidence ledger.Evidence
		reason   ledger.Reason
	}{
		"answered":        {simulator.Fault{}, nil, digits, ledger.StatusSuccess, ledger.EvidenceAnswered, 0},
		"no such account": {simulator.Fault{}, nil, "0", ledger.StatusFailed, ledger.EvidenceAnswered, ledger.ReasonAccountNotFound},
		"declined":        {declined, nil, digits, ledger.StatusFailed, ledger.EvidenceAnswered, ledger.ReasonDeclined},
		"closed":          {strikes(simulator.FaultClose), nil, digits, ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown},
		"cut short":       {truncated, nil, digits, ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown},
		"too late":        {delayed, nil, digits, ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown},
		"black hole":      {strikes(simulator.FaultBlackHole), nil, digits, ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown},
		"wrong echo":      {strikes(simulator.FaultWrongEcho), nil, digits, ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown},
		"wrong MTI":       {strikes(simulator.FaultWrongMTI), nil, digits, ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown},
		"garbage":         {corrupt, nil, digits, ledger.StatusUnknown, 0, ledger.ReasonOutcomeUnknown},
		"no connection":   {simulator.Fault{}, syscall.ECONNREFUSED, digits, ledger.StatusFailed, ledger.EvidenceNotSent, ledger.ReasonCoreUnreachable},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			inHouseWithListings(t, c.fault, c.refused, func(t *testing.T, h *house, core *bank) {
				for _, balance := range []int64{5000, 7000, 6500} {
					if _, err := core.PutAccount(number(t, digits), account.Won(balance)); err != nil {
						t.Fatal(err)
					}
				}
				start := time.Now()
				reply, err := h.list(t.Context(), c.account)
				if took := time.Since(start); took > 3*time.Second {
					t.Errorf("took %v", took)
				}
				told := reply.Transaction
				if c.reason != 0 {
					told = *refusalOf(t, err, c.reason).Transaction
				} else if err != nil || len(reply.Entries) != 2 || reply.Entries[0].BalanceAfter != 6500 || reply.Entries[1].Amount != 2000 {
					t.Fatalf("entries %+v, %v", reply.Entries, err)
				}
				row := h.inquiry()
				if row.Status != c.status || row.Evidence != c.evidence || told.ID != row.ID || told.Answer != row.Answer {
					t.Errorf("told %+v, row %+v", told, row)
				}
				if row.Kind != ledger.KindHistoryInquiry || row.Client != client || row.AccountMasked != number(t, c.account).Masked() ||
					row.CorrelationID != "corr-1" || row.Key != "" || row.Reason == "" {
					t.Errorf("row %+v", row)
				}
				if n := h.count("gwanmun_ledger_transactions_total", c.status.String()); n != 1 {
					t.Errorf("counted %v", n)
				}
			})
		})
	}
}

func TestEntries_TheCallersTimeCounts(t *testing.T) {
	inHouseWithListings(t, simulator.Fault{Action: simulator.FaultBlackHole, MTI: "0300"}, nil, func(t *testing.T, h *house, _ *bank) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err := h.list(ctx, "1")
		_ = refusalOf(t, err, ledger.ReasonOutcomeUnknown)
		if took := time.Since(start); took != time.Second {
			t.Errorf("took %v", took)
		}
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		_, err = h.list(short, "1")
		_ = refusalOf(t, err, ledger.ReasonDeadlineTooShort)
	})
}

// With every place in use a listing is refused, and payments are not touched:
// they have a pool of their own.
func TestEntries_MoreThanThePlacesAreRefused(t *testing.T) {
	inHouseWithListings(t, simulator.Fault{Action: simulator.FaultBlackHole, MTI: "0300"}, nil, func(t *testing.T, h *house, _ *bank) {
		first := make(chan error, 1)
		go func() {
			_, err := h.list(t.Context(), "1")
			first <- err
		}()
		synctest.Wait()
		_, err := h.list(t.Context(), "1")
		_ = refusalOf(t, err, ledger.ReasonLinkSaturated)
		_ = refusalOf(t, <-first, ledger.ReasonOutcomeUnknown)
	})
}

func TestEntries_WhatNoTelegramCanCarryIsAFaultOfOurs(t *testing.T) {
	inHouseWithListings(t, simulator.Fault{}, errors.New("dialed"), func(t *testing.T, h *house, _ *bank) {
		_, err := h.service.Entries(t.Context(), payment.EntriesRequest{Client: client, Account: number(t, "1"), Max: 1})
		_ = refusalOf(t, err, ledger.ReasonInternal)
	})
}
