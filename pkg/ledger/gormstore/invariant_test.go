package gormstore

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

func openInternal(t *testing.T, dsn string) *Store {
	t.Helper()
	s, _, err := Open(context.Background(), Options{
		Flags:  Flags{LedgerDSN: dsn, HashKey: strings.Repeat("5a", 32), Migrate: true},
		Logger: slog.New(slog.NewJSONHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func eachStore(t *testing.T, test func(t *testing.T, s *Store)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, openInternal(t, "sqlite:"+filepath.Join(t.TempDir(), "ledger.db"))) })
	t.Run("postgresql", func(t *testing.T) { test(t, openInternal(t, postgrestest.DSN(t))) })
}

// The invariants are said three times: in Go, and in the CHECKs of two
// databases. Rows that are sound but for up to three values, at random, must be
// judged the same by all.
func TestInvariants_AreTheSameInGoAndInTheDatabase(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	eachStore(t, func(t *testing.T, s *Store) {
		t.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 0))
		accepted, refused := 0, 0
		err := s.transact(context.Background(), func(tx *gorm.DB) error {
			for range 500 {
				row := randomRow(random)
				valid := row.Validate() == nil
				stored := storable(s, tx, &row)
				if stored != valid {
					t.Errorf("seed %d: valid %t (%v), stored %t: %+v", seed, valid, row.Validate(), stored, row)
				}
				if stored {
					accepted++
				} else {
					refused++
				}
			}
			return errors.New("enough")
		})
		if err == nil || accepted < 50 || refused < 50 {
			t.Errorf("%d rows stored, %d refused, error %v", accepted, refused, err)
		}
	})
}

// storable reports whether the database takes the row, and leaves none behind.
func storable(s *Store, tx *gorm.DB, t *ledger.Transaction) bool {
	tx.SavePoint("before")
	err := s.dialect.insertRows(tx, []transactionRow{*newTransactionRow(t)})
	tx.RollbackTo("before")
	return err == nil
}

func pick[T any](r *rand.Rand, values ...T) T { return values[r.IntN(len(values))] }

var (
	someTime = time.Date(2026, 7, 25, 3, 0, 0, 0, time.UTC)
	noTime   time.Time

	// The first and the last that a book holds, and the first that it does not. Those
	// before come by SQL alone.
	firstTime = time.Date(1, 1, 1, 0, 0, 0, 1000, time.UTC)
	lastTime  = time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	tooLate   = lastTime.Add(time.Microsecond)
)

// soundRow is a row that some series of moves makes.
func soundRow(r *rand.Rand) ledger.Transaction {
	t := ledger.Transaction{
		ID: "GWMNU20260725000000001", Kind: ledger.KindPayment, Policy: ledger.PolicyConfirm, Client: "shop", Key: "key",
		AccountMasked: "123456****1234", Amount: 1, RequestedAt: someTime, AdoptAt: someTime,
	}
	if r.IntN(4) == 0 {
		t.Kind, t.Policy, t.Key, t.Amount = ledger.KindBalanceInquiry, 0, "", 0
	}
	switch r.IntN(8) {
	case 0:
		t.Status = ledger.StatusRequested
	case 1:
		t.Status, t.NextResolveAt = ledger.StatusUnknown, someTime
	case 2:
		t.Status, t.Evidence, t.Answer.Code = ledger.StatusSuccess, ledger.EvidenceAnswered, "0000"
	case 3:
		t.Status, t.Evidence, t.Answer.Code = ledger.StatusFailed, ledger.EvidenceAnswered, "0051"
	case 4:
		t.Status, t.Evidence = ledger.StatusFailed, ledger.EvidenceNotSent
	case 5:
		t.Status, t.Evidence, t.Method = ledger.StatusCanceled, ledger.EvidenceCancelConfirmed, ledger.MethodNetCancel
		t.ResolvedAt = someTime
	case 6:
		t.Status, t.Evidence, t.Method = ledger.StatusFailed, ledger.EvidenceFenced, ledger.MethodStatusInquiry
		t.Decision, t.ResolvedAt = ledger.DecisionCancel, someTime
	case 7:
		t.Status, t.Answer.Code, t.NeedsReview = ledger.StatusUnknown, ledger.CodeIDUsed, true
	}
	return t
}

func randomRow(r *rand.Rand) ledger.Transaction {
	t := soundRow(r)
	changes := []func(){
		func() { t.ID = pick[tranid.ID](r, "", "GWMNU2026072500000000X", "GWMNX20260725000000001") },
		func() { t.Kind = ledger.Kind(r.IntN(5)) },
		func() { t.Status = ledger.Status(r.IntN(7)) },
		func() { t.Evidence = ledger.Evidence(r.IntN(10)) },
		func() { t.Method = ledger.Method(r.IntN(6)) },
		func() { t.Policy = ledger.Policy(r.IntN(4)) },
		func() { t.Decision = ledger.Decision(r.IntN(3)) },
		func() { t.NeedsReview = !t.NeedsReview },
		func() { t.Client = pick[ledger.ClientID](r, "", "가", ledger.ClientID(strings.Repeat("가", 65))) },
		func() {
			t.Key = pick[ledger.IdempotencyKey](r, "", "k", ledger.IdempotencyKey(strings.Repeat("k", 65)))
		},
		func() { t.Order = pick[ledger.OrderID](r, "o", ledger.OrderID(strings.Repeat("o", 65))) },
		func() {
			t.AccountMasked = pick(r, "", "****", "****12", "123****8901", "****12345", "1234567****", "12345678901234",
				"*****", "12****3a", "x****", "123456****1234 ", "********", "1****2****")
		},
		func() { t.Amount = pick[account.Won](r, -1, 0, 1, account.MaxPayment, account.MaxPayment+1) },
		func() {
			t.Answer.Code = pick(r, "", "0000", "0051", ledger.CodeIDUsed, "51", "00000", "ABCD", "가나다라")
		},
		func() { t.Answer.Approval = pick(r, "00000000001", "1", "1234567890a") },
		func() { t.Answer.Message = pick(r, "정상", strings.Repeat("가", 300), strings.Repeat("가", 301)) },
		func() { t.Reason = pick(r, "reason", strings.Repeat("가", 301)) },
		func() { t.Elapsed = pick(r, -time.Microsecond, time.Second) },
		func() { t.SentAt = pick(r, noTime, someTime, firstTime, lastTime, tooLate) },
		func() { t.RespondedAt = pick(r, noTime, someTime, firstTime, lastTime, tooLate) },
		func() { t.ResolvedAt = pick(r, noTime, someTime, firstTime, lastTime, tooLate) },
		func() { t.AdoptAt = pick(r, noTime, someTime, firstTime, lastTime, tooLate) },
		func() { t.NextResolveAt = pick(r, noTime, someTime, firstTime, lastTime, tooLate) },
		func() { t.RequestedAt = pick(r, noTime, someTime, firstTime, lastTime, tooLate) },
		func() { t.ResolveAttempts, t.Asked = pick(r, -1, 3), pick(r, true, true, false) },
		func() { t.NotFound, t.Asked = pick(r, -1, 3), pick(r, true, true, false) },
		func() { t.Asked = !t.Asked },
		func() { t.CorrelationID = pick(r, "c", strings.Repeat("c", 65)) },
		func() { t.TraceID = pick(r, "0", strings.Repeat("0", 32)) },
	}
	for range r.IntN(4) {
		changes[r.IntN(len(changes))]()
	}
	return t
}
