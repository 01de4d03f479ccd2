package ledgertest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/ledgertest"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
)

func TestExercise_AddsALineForEachStoreToTheReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report")
	t.Setenv(ledgertest.ReportVariable, path)
	t.Run("first", func(t *testing.T) {
		ledgertest.Exercise(t, func(*testing.T) ledger.Store { return memstore.New(time.Now) })
	})
	ledgertest.Report(t, "another", "skipped")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := regexp.MustCompile(`^memory: [1-9][0-9]+ cases\nanother: skipped\n$`); !want.Match(text) {
		t.Errorf("report %q, want %q", text, want)
	}
}
