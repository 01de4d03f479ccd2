package opsapi_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
)

func TestAccess_WhoIsNoOperatorSeesHisOwn(t *testing.T) {
	b := newBook(t)
	mine := b.pay(t, "shop", "12345678901234")
	others := b.pay(t, "other", "12345678901234")
	server := b.server()
	as := func(id ledger.ClientID, role access.Role) context.Context {
		return rpcserver.As(t.Context(), access.Client{ID: id, Roles: access.Of(role)})
	}
	for name, c := range map[string]struct {
		ctx  context.Context
		rows map[string]bool
	}{
		"shop":             {as("shop", access.RolePayment), map[string]bool{mine: true}},
		"other":            {as("other", access.RolePayment), map[string]bool{others: true}},
		"one without rows": {as("third", access.RolePayment), nil},
		"operator":         {as("desk", access.RoleOps), map[string]bool{mine: true, others: true}},
	} {
		t.Run(name, func(t *testing.T) {
			page, err := server.ListTransactions(c.ctx, &ledgerv1.ListTransactionsRequest{})
			if err != nil || len(page.GetTransactions()) != len(c.rows) {
				t.Errorf("lists %d rows, error %v", len(page.GetTransactions()), err)
			}
			for _, row := range page.GetTransactions() {
				if !c.rows[row.GetTransactionId()] {
					t.Errorf("lists %s", row.GetTransactionId())
				}
			}
			for _, id := range []string{mine, others} {
				_, err := server.GetTransaction(c.ctx, &ledgerv1.GetTransactionRequest{TransactionId: id})
				var refusal *ledger.Refusal
				if errors.As(err, &refusal) == c.rows[id] || refusal != nil && refusal.Reason != ledger.ReasonTransactionNotFound {
					t.Errorf("get %s: error %v", id, err)
				}
			}
			summary, err := server.SummarizeTransactions(c.ctx, &ledgerv1.SummarizeTransactionsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			var count int64
			for _, total := range summary.GetTotals() {
				count += total.GetCount()
			}
			if count != int64(len(c.rows)) {
				t.Errorf("sums up %d rows", count)
			}
		})
	}
}

// A page token of one client is of no use to another.
func TestAccess_PageTokenIsItsClientsOwn(t *testing.T) {
	b := newBook(t)
	for range 3 {
		b.pay(t, "shop", "12345678901234")
	}
	shop := rpcserver.As(t.Context(), access.Client{ID: "shop", Roles: access.Of(access.RolePayment)})
	page, err := b.server().ListTransactions(shop, &ledgerv1.ListTransactionsRequest{PageSize: 1})
	if err != nil || page.GetNextPageToken() == "" {
		t.Fatalf("token %q, error %v", page.GetNextPageToken(), err)
	}
	other := rpcserver.As(t.Context(), access.Client{ID: "other", Roles: access.Of(access.RolePayment)})
	if _, err := b.server().ListTransactions(other, &ledgerv1.ListTransactionsRequest{PageSize: 1, PageToken: page.GetNextPageToken()}); err == nil {
		t.Error("accepted")
	}
}
