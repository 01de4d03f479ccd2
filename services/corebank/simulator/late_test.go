package simulator

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// hearing is a Late that remembers what it was told, and when.
type hearing struct {
	start time.Time
	mu    sync.Mutex
	told  []string
}

func (h *hearing) tell(what string, id tranid.ID, code string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.told = append(h.told, fmt.Sprintf("%s %s %s after %s", what, id, code, time.Since(h.start)))
}

func (h *hearing) Begins(id tranid.ID)            { h.tell("begins", id, "-") }
func (h *hearing) Ends(id tranid.ID, code string) { h.tell("ends", id, code) }

func TestLate_HearsOfWhatIsLateAndOfNothingElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bank, _ := newBank(t, Rules{})
		faults := NewFaults()
		heard := &hearing{start: time.Now()}
		s := NewServer(bank, Options{LateAnswer: late, Faults: faults, Late: heard})
		if _, err := faults.Set(Fault{MTI: telegram.PaymentRequestMTI, Account: bob, When: BeforeExecution, Action: FaultDelay, Delay: time.Second}); err != nil {
			t.Fatal(err)
		}
		for n, frame := range [][]byte{
			payment(t, id(1), accountHolds, 1000),
			payment(t, id(2), accountLate, 1000),
			payment(t, id(3), bob, 1000),
			payment(t, id(4), alice, 1000),
			payment(t, id(5), accountDies, 1000),
			encode(t, telegram.BalanceRequest{TranID: id(6), Account: accountHolds}),
		} {
			c := dial(t, s)
			if _, err := c.conn.Write(frame); err != nil {
				t.Fatal(err)
			}
			if n == 0 { // nobody waits for the first
				_ = c.conn.Close()
			}
		}
		time.Sleep(2 * late)
		synctest.Wait()
		slices.Sort(heard.told)
		want := []string{
			fmt.Sprintf("begins %s - after 0s", id(1)), fmt.Sprintf("begins %s - after 0s", id(2)), fmt.Sprintf("begins %s - after 0s", id(3)),
			fmt.Sprintf("ends %s 0000 after 5s", id(1)), fmt.Sprintf("ends %s 0000 after 5s", id(2)), fmt.Sprintf("ends %s 0000 after 1s", id(3)),
		}
		if !slices.Equal(heard.told, want) {
			t.Errorf("told %q, want %q", heard.told, want)
		}
	})
}
