package gormstore

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

func TestSQLLog_SlowStatementIsToldWithoutItsValues(t *testing.T) {
	var out bytes.Buffer
	log := sqlLog{slog.New(slog.NewTextHandler(&out, nil))}
	statement := func() (string, int64) {
		text, values := log.ParamsFilter(context.Background(), "SELECT ?", "secret")
		if len(values) != 0 {
			t.Errorf("values %v", values)
		}
		return text, 1
	}
	log.Trace(context.Background(), time.Now(), statement, errors.New("not told twice"))
	if out.Len() != 0 {
		t.Errorf("a quick statement is told: %s", out.String())
	}
	log.Trace(context.Background(), time.Now().Add(-2*time.Second), statement, nil)
	if text := out.String(); !strings.Contains(text, `sql="SELECT ?"`) || strings.Contains(text, "secret") {
		t.Errorf("log: %s", text)
	}
}

func TestStore_LogsNoValueWhateverHappens(t *testing.T) {
	var out bytes.Buffer
	s, _, err := Open(t.Context(), Options{
		Flags:  Flags{LedgerDSN: "sqlite:" + filepath.Join(t.TempDir(), "ledger.db"), Migrate: true},
		Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	in := doubtfulIntent()
	in.Key, in.CorrelationID = "telling-key", "telling-correlation"
	_, err = s.CreateIntent(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	in.Key = "telling-other-key"
	if _, err := s.CreateIntent(t.Context(), in); !errors.Is(err, ledger.ErrDuplicateID) {
		t.Errorf("error %v", err)
	}
	if err := s.db.Exec("INSERT INTO transactions (client_id) VALUES (?)", "telling-client").Error; err == nil {
		t.Error("half a row is stored")
	}
	if strings.Contains(out.String(), "telling") {
		t.Errorf("log: %s", out.String())
	}
}
