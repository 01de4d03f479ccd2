package payment

import (
	"context"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// BalanceRequest is an inquiry that a client asks for.
type BalanceRequest struct {
	Client        ledger.ClientID
	Account       account.Number
	CorrelationID string
}

// BalanceReply is an inquiry that was answered.
type BalanceReply struct {
	Balance     account.Won
	Transaction ledger.Transaction
}

// Balance asks the core for a balance, in as many attempts as the way to the
// core makes of an inquiry.
func (s *Service) Balance(ctx context.Context, r BalanceRequest) (BalanceReply, error) {
	if err := s.begin(); err != nil {
		return BalanceReply{}, err
	}
	defer s.work.Done()
	arrived := s.Now()
	if err := s.timeLeft(ctx, arrived); err != nil {
		return BalanceReply{}, err
	}
	idCtx, cancel := context.WithTimeout(ctx, s.Flags.SendWindow)
	id, _, err := s.ids.NextReserved(idCtx)
	cancel()
	if err != nil {
		return BalanceReply{}, refuse(ledger.ReasonLedgerUnavailable, err)
	}

	balance, answer, res := s.askBalance(ctx, id, r.Account, arrived)
	o := judge(ledger.KindBalanceInquiry, &res, answer)
	t := ledger.Transaction{
		ID: id, Kind: ledger.KindBalanceInquiry, Status: o.status, Evidence: o.evidence,
		Client: r.Client, AccountMasked: r.Account.Masked(), AccountHash: s.HashKey.Account(r.Account),
		Answer: o.answer, Reason: o.reason,
		Elapsed: s.since(arrived), RequestedAt: stamp(arrived),
		SentAt: stamp(res.SentAt), RespondedAt: stamp(res.AnsweredAt),
		CorrelationID: r.CorrelationID,
	}
	s.record(ctx, &t)
	switch {
	case o.evidence == ledger.EvidenceNotSent:
		return BalanceReply{}, &ledger.Refusal{Reason: o.refusal, RetryAfter: o.retryAfter, Transaction: &t, Err: res.Err}
	case t.Status != ledger.StatusSuccess:
		return BalanceReply{}, &ledger.Refusal{Reason: reasonFor(&t), Transaction: &t, Err: res.Err}
	}
	return BalanceReply{Balance: balance, Transaction: t}, nil
}

func (s *Service) askBalance(ctx context.Context, id tranid.ID, n account.Number, arrived time.Time) (account.Won, ledger.Answer, corelink.Result) {
	var (
		balance account.Won
		answer  ledger.Answer
	)
	m := telegram.BalanceRequest{TranID: id, Account: n}
	frame, err := m.AppendTo(make([]byte, 0, telegram.RequestLength))
	if err != nil {
		return 0, answer, corelink.Result{Sent: corelink.SentNone, Err: err}
	}
	deadline := arrived.Add(s.Flags.Deadline)
	if callers, ok := ctx.Deadline(); ok && callers.Before(deadline) {
		deadline = callers
	}
	res := s.Core.Exchange(ctx, corelink.Call{
		Tx: corelink.TxBalance, Kind: corelink.Inquiry,
		Frame: frame, AnswerLength: telegram.AnswerLength, Deadline: deadline,
		Check: func(b []byte) error {
			m, err := telegram.ParseBalanceAnswer(b)
			if err != nil {
				return fmt.Errorf("parse balance answer: %w", err)
			}
			if m.TranID != id {
				return errOtherID
			}
			balance = m.Balance
			answer = ledger.Answer{Code: m.ResponseCode, Message: m.Message.Value}
			return nil
		},
	})
	return balance, answer, res
}
