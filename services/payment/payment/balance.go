package payment

import (
	"context"
	"fmt"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
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
	q := inquiry{kind: ledger.KindBalanceInquiry, client: r.Client, account: r.Account, correlationID: r.CorrelationID}
	if err := s.number(ctx, &q); err != nil {
		return BalanceReply{}, err
	}
	asking, exchange := span.Exchange(ctx, corelink.TxBalance, q.id)
	balance, answer, res := s.askBalance(asking, &q)
	t, err := s.conclude(ctx, &q, told{answer, res, exchange})
	if err != nil {
		return BalanceReply{}, err
	}
	return BalanceReply{Balance: balance, Transaction: t}, nil
}

func (s *Service) askBalance(ctx context.Context, q *inquiry) (account.Won, ledger.Answer, corelink.Result) {
	var (
		balance account.Won
		answer  ledger.Answer
	)
	m := telegram.BalanceRequest{TranID: q.id, Account: q.account}
	frame, err := m.AppendTo(make([]byte, 0, telegram.RequestLength))
	if err != nil {
		return 0, answer, corelink.Result{Sent: corelink.SentNone, Err: err}
	}
	res := s.Core.Exchange(ctx, corelink.Call{
		Tx: corelink.TxBalance, Kind: corelink.Inquiry,
		Frame: frame, AnswerLength: telegram.AnswerLength, Deadline: s.deadline(ctx, q),
		Check: func(b []byte) error {
			m, err := telegram.ParseBalanceAnswer(b)
			if err != nil {
				return fmt.Errorf("parse balance answer: %w", err)
			}
			if m.TranID != q.id {
				return errOtherID
			}
			balance = m.Balance
			answer = ledger.Answer{Code: m.ResponseCode, Message: m.Message.Value}
			return nil
		},
	})
	return balance, answer, res
}
