package gormstore

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"gorm.io/gorm"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// telling opens the store's log to everything, and takes every statement for
// slow.
func telling(s *Store) (*Store, *bytes.Buffer) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s.db = s.db.Session(&gorm.Session{Logger: sqlLog{log: log}})
	return s, &out
}

func TestSQLLog_QuickStatementIsNotTold(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		s, out := telling(s)
		s.db.Logger = sqlLog{log: s.db.Logger.(sqlLog).log, slow: time.Hour}
		if err := s.Ping(t.Context()); err != nil || out.Len() != 0 {
			t.Errorf("log: %s, error %v", out, err)
		}
	})
}

// Every way in which GORM runs a statement, one that succeeds and one that fails.
func TestSQLLog_SlowStatementIsToldWithoutItsValues(t *testing.T) {
	const canary = "telling-canary"
	var rows []map[string]any
	ways := map[string]func(db *gorm.DB) error{
		"raw": func(db *gorm.DB) error { return db.Raw("SELECT CAST(? AS text) AS told", canary).Scan(&rows).Error },
		"raw, failed": func(db *gorm.DB) error {
			return db.Raw("SELECT CAST(? AS text) AS told FROM none", canary).Scan(&rows).Error
		},
		"exec": func(db *gorm.DB) error {
			return db.Exec("DELETE FROM tranid_blocks WHERE next_number = length(?)", canary).Error
		},
		"exec, failed": func(db *gorm.DB) error { return db.Exec("DELETE FROM none WHERE told = ?", canary).Error },
		"find": func(db *gorm.DB) error {
			return db.Table("transactions").Select("client_id").Where("client_id = ?", canary).Find(&rows).Error
		},
		"create, failed": func(db *gorm.DB) error {
			return db.Select("client_id").Create(&transactionRow{ClientID: canary}).Error
		},
		"update": func(db *gorm.DB) error {
			return db.Table("transactions").Where("client_id = ?", canary).Updates(map[string]any{"reason": canary}).Error
		},
	}
	eachStore(t, func(t *testing.T, s *Store) {
		s, out := telling(s)
		for what, run := range ways {
			out.Reset()
			err := run(s.db.WithContext(t.Context()))
			if failed := strings.HasSuffix(what, "failed"); failed != (err != nil) {
				t.Errorf("%s: error %v", what, err)
			}
			text := out.String()
			if !strings.Contains(text, "slow sql statement") || strings.Contains(text, canary) ||
				!strings.Contains(text, "?") && !strings.Contains(text, "$1") {
				t.Errorf("%s: log: %s", what, text)
			}
		}
	})
}

func TestStore_LogsNoValueWhateverHappens(t *testing.T) {
	eachStore(t, func(t *testing.T, s *Store) {
		s, out := telling(s)
		in := doubtfulIntent()
		in.Client, in.Key, in.CorrelationID, in.By.Instance = "telling-client", "telling-key", "telling-correlation", "telling-process"
		created, err := s.CreateIntent(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		again := in
		again.Key = "telling-other-key"
		if _, err := s.CreateIntent(t.Context(), again); !errors.Is(err, ledger.ErrDuplicateID) {
			t.Errorf("error %v", err)
		}
		_, err = s.Transition(t.Context(), ledger.Change{
			ID: in.ID, From: ledger.StatusRequested, To: ledger.StatusUnknown, Reason: "telling-reason", By: in.By,
		})
		if err != nil {
			t.Fatal(err)
		}
		claims, err := s.Claim(t.Context(), ledger.ClaimOptions{Limit: 1, Lease: time.Hour})
		if err != nil || len(claims) != 1 {
			t.Fatalf("claimed %d, error %v", len(claims), err)
		}
		if err := errors.Join(
			s.Postpone(t.Context(), ledger.Postponement{ID: in.ID, Token: claims[0].Token, Detail: "telling-detail", By: in.By}),
			second(s.GetByKey(t.Context(), in.Client, in.Key)),
			second(s.Bound(t.Context(), in.Client, in.Key, in.Fingerprint)),
			second(s.List(t.Context(), ledger.Filter{Limit: 1, Client: in.Client, CorrelationID: in.CorrelationID})),
			second(s.Summarize(t.Context(), in.Client, time.Time{}, time.Time{})),
		); err != nil {
			t.Error(err)
		}
		text := out.String()
		for _, secret := range []string{"telling", claims[0].Token, string(in.ID), created.Transaction.AccountMasked} {
			if strings.Contains(text, secret) {
				t.Errorf("%s is in the log: %s", secret, text)
			}
		}
		if n := strings.Count(text, "slow sql statement"); n < 12 {
			t.Errorf("%d statements are told", n)
		}
	})
}

func second[T any](_ T, err error) error { return err }
