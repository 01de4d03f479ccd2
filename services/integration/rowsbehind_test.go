package integration

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
)

// inquiries is how many balances are asked for while a ledger is away.
const inquiries = 40

// askMeanwhile asks for balances while the ledger is away. Each is answered, and
// none waits for the ledger: all together take less than one that did would.
func askMeanwhile(t *testing.T, p *payment) map[string]bool {
	t.Helper()
	ids, begun := map[string]bool{}, time.Now()
	for range inquiries {
		a := p.ask(t, ordinary)
		if a.code != codes.OK || a.balance == 0 {
			t.Fatalf("a balance meanwhile: %s", a)
		}
		ids[a.id()] = true
	}
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("%d inquiries took %s", inquiries, took)
	}
	return ids
}

// waitFor waits until so many rows wait to be written behind their answers.
func (p *payment) waitFor(t *testing.T, rows int) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d rows wait", rows), func(ctx context.Context) error {
		_, page := p.fetch(ctx, t, "/metrics")
		if !strings.Contains(page, fmt.Sprintf("\ngwanmun_ledger_queue_depth %d\n", rows)) {
			return errUnseen
		}
		return nil
	})
}

// TestLedgerDown_LosesNoInquiry takes the ledger away, asks for balances, and
// gives it back: each inquiry has its row.
func TestLedgerDown_LosesNoInquiry(t *testing.T) {
	onEachDatabase(t, func(t *testing.T, db *database) {
		s := newStack(t, db)
		down := newOutage(t, db)
		p := s.startPayment(t)
		p.ask(t, ordinary)
		p.waitFor(t, 0)
		down.begin()
		ids := askMeanwhile(t, p)
		p.waitFor(t, inquiries)
		down.end()
		p.awaitReady(t)
		b := s.audit(t, p)
		for id := range ids {
			if b.rows[id].GetStatus() != success {
				t.Errorf("the row of %s is %v", id, b.rows[id])
			}
		}
		if len(b.rows) != inquiries+1 {
			t.Errorf("%d rows, of %d inquiries", len(b.rows), inquiries+1)
		}
	})
}

// TestSIGTERM_RowsThatWait stops a payment service whose rows wait for a ledger
// that is away. It writes them when the ledger comes back in time; otherwise it
// says that it lost them, in its log and by its exit code.
func TestSIGTERM_RowsThatWait(t *testing.T) {
	for name, back := range map[string]bool{"the ledger comes back": true, "the ledger stays away": false} {
		t.Run(name, func(t *testing.T) {
			onEachDatabase(t, func(t *testing.T, db *database) {
				s := newStack(t, db)
				observer := s.startPayment(t)
				down := newOutage(t, db)
				budget := "--shutdown-timeout=60s"
				if !back {
					budget = "--shutdown-timeout=3s"
				}
				p := s.startPayment(t, budget)
				p.ask(t, ordinary)
				p.waitFor(t, 0)
				down.begin()
				askMeanwhile(t, p)
				p.waitFor(t, inquiries)
				p.dirty = !back
				p.signal(syscall.SIGTERM)
				eventually(t, "it says that it stops", func(ctx context.Context) error {
					if code, body := p.fetch(ctx, t, "/readyz"); code == http.StatusOK || strings.HasPrefix(body, "ledger") {
						return errUnseen
					}
					return nil
				})
				want, rows := 1, 1
				if back {
					down.end()
					want, rows = 0, inquiries+1
				}
				if code := p.wait(t, stopWithin); code != want {
					t.Errorf("it ends with exit code %d, want %d", code, want)
				}
				if !back {
					down.end()
				}
				if b := s.read(t, observer); len(b.rows) != rows {
					t.Errorf("%d rows, want %d", len(b.rows), rows)
				}
			})
		})
	}
}
