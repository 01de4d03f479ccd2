package opsapi_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/opsapi"
	ledgerv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"
)

// gappyReader has rows that cannot be read.
type gappyReader struct {
	ledger.Reader
	unreadable int
}

func (r *gappyReader) List(context.Context, ledger.Filter) (ledger.Page, error) {
	return ledger.Page{Unreadable: r.unreadable}, nil
}

func (r *gappyReader) Summarize(context.Context, ledger.ClientID, time.Time, time.Time) (ledger.Summary, error) {
	return ledger.Summary{Unreadable: int64(r.unreadable)}, nil
}

// headerStream is the transport of one rpc.
type headerStream struct {
	grpc.ServerTransportStream
	header metadata.MD
}

func (s *headerStream) SetHeader(md metadata.MD) error {
	s.header = metadata.Join(s.header, md)
	return nil
}

func TestReads_TellTheCallerOfRowsThatAreMissing(t *testing.T) {
	for unreadable, want := range map[int][]string{0: nil, 1: {"1"}, 12: {"12"}} {
		server := opsapi.NewLedgerServer(&gappyReader{unreadable: unreadable}, ledger.HashKey{}, time.Now)
		for what, call := range map[string]func(ctx context.Context) error{
			"list": func(ctx context.Context) error {
				_, err := server.ListTransactions(ctx, &ledgerv1.ListTransactionsRequest{})
				return err
			},
			"summary": func(ctx context.Context) error {
				_, err := server.SummarizeTransactions(ctx, &ledgerv1.SummarizeTransactionsRequest{})
				return err
			},
		} {
			stream := &headerStream{}
			err := call(grpc.NewContextWithServerTransportStream(t.Context(), stream))
			if got := stream.header.Get(opsapi.UnreadableHeader); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s with %d unreadable says %q, error %v", what, unreadable, got, err)
			}
		}
	}
}
