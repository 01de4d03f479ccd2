package memstore_test

import (
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/ledger/ledgertest"
	"github.com/gwanmun/gwanmun/pkg/ledger/memstore"
)

func TestConformance(t *testing.T) {
	ledgertest.Exercise(t, func(*testing.T) ledger.Store { return memstore.New(time.Now) })
}
