// Package grpcapi serves the bank's side of the simulated core, SimulatorService:
// a thin layer that turns messages into calls of the bank and of its faults, and
// back. Its errors are *ledger.Refusal, for rpcerr to translate.
package grpcapi

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// defaultPage is the page size of a request that names none.
const defaultPage = 50

type server struct {
	simulatorv1.UnimplementedSimulatorServiceServer

	bank   *simulator.Bank
	faults *simulator.Faults
}

// Register serves a bank and the faults of its Server.
func Register(r grpc.ServiceRegistrar, bank *simulator.Bank, faults *simulator.Faults) {
	simulatorv1.RegisterSimulatorServiceServer(r, &server{bank: bank, faults: faults})
}

// GetAccount returns an account without opening it.
func (s *server) GetAccount(_ context.Context, req *simulatorv1.GetAccountRequest) (*simulatorv1.GetAccountResponse, error) {
	n, err := account.Parse(req.GetAccountNumber())
	if err != nil {
		return nil, invalid("account_number", err)
	}
	a, err := s.bank.Account(n)
	if err != nil {
		return nil, fmt.Errorf("get account: %w", err)
	}
	return &simulatorv1.GetAccountResponse{Account: accountPB(a)}, nil
}

// PutAccount sets a balance.
func (s *server) PutAccount(_ context.Context, req *simulatorv1.PutAccountRequest) (*simulatorv1.PutAccountResponse, error) {
	n, err := account.Parse(req.GetAccountNumber())
	if err != nil {
		return nil, invalid("account_number", err)
	}
	a, err := s.bank.PutAccount(n, account.Won(req.GetBalance()))
	switch {
	case errors.Is(err, simulator.ErrNoAccount):
		return nil, invalid("account_number", simulator.ErrNoAccount)
	case errors.Is(err, simulator.ErrBalance):
		return nil, invalid("balance", simulator.ErrBalance)
	case err != nil:
		return nil, fmt.Errorf("put account: %w", err)
	}
	return &simulatorv1.PutAccountResponse{Account: accountPB(a)}, nil
}

// ListJournal returns one page of what the core received and did.
func (s *server) ListJournal(ctx context.Context, req *simulatorv1.ListJournalRequest) (*simulatorv1.ListJournalResponse, error) {
	filter := simulator.Filter{
		TranID: tranid.ID(req.GetTransactionId()), MTI: req.GetMti(), Limit: pageSize(req.GetPageSize()),
	}
	var err error
	if filter.After, err = parsePageToken(req.GetPageToken(), filter); err != nil {
		return nil, invalid("page_token", err)
	}
	page, err := s.bank.Journal(ctx, filter)
	if err != nil {
		return nil, fmt.Errorf("list journal: %w", err)
	}
	resp := &simulatorv1.ListJournalResponse{Entries: make([]*simulatorv1.JournalEntry, 0, len(page.Entries))}
	for _, e := range page.Entries {
		resp.Entries = append(resp.Entries, entryPB(e))
	}
	if page.More {
		resp.NextPageToken = formatPageToken(page.Entries[len(page.Entries)-1].Sequence, filter)
	}
	return resp, nil
}

func pageSize(asked int32) int {
	if asked <= 0 {
		return defaultPage
	}
	return min(int(asked), simulator.MaxPage)
}

func accountPB(a simulator.Account) *simulatorv1.Account {
	return &simulatorv1.Account{AccountMasked: a.Number.Masked(), Balance: int64(a.Balance), Exists: a.Exists}
}

func entryPB(e simulator.Entry) *simulatorv1.JournalEntry {
	return &simulatorv1.JournalEntry{
		Sequence: e.Sequence, At: timestamppb.New(e.At), Mti: e.MTI, TransactionId: string(e.TranID),
		AccountMasked: e.Account.Masked(), Amount: int64(e.Amount), Effect: effectPB(e.Effect),
		ResponseCode: e.ResponseCode, Connection: e.Connection,
	}
}

func effectPB(e simulator.Effect) simulatorv1.JournalEffect {
	switch e {
	case simulator.EffectNone:
		return simulatorv1.JournalEffect_JOURNAL_EFFECT_NONE
	case simulator.EffectDebit:
		return simulatorv1.JournalEffect_JOURNAL_EFFECT_DEBIT
	case simulator.EffectCancel:
		return simulatorv1.JournalEffect_JOURNAL_EFFECT_CANCEL
	case simulator.EffectFence:
		return simulatorv1.JournalEffect_JOURNAL_EFFECT_FENCE
	default:
		return simulatorv1.JournalEffect_JOURNAL_EFFECT_UNSPECIFIED
	}
}

func invalid(field string, err error) *ledger.Refusal {
	return &ledger.Refusal{
		Reason: ledger.ReasonInvalidRequest,
		Fields: []ledger.FieldViolation{{Field: field, Description: err.Error()}},
	}
}
