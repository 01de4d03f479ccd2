package payment_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// exchange is what a scripted core does with a call.
type exchange func(ctx context.Context, call corelink.Call, id tranid.ID) corelink.Result

// scriptedCore is a payment.Core that does as it is told. Of every payment that
// leaves it checks that the intent is in the book by then.
type scriptedCore struct {
	t    *testing.T
	book ledger.Reader
	do   exchange

	mu sync.Mutex
	// asked are the IDs of the exchanges that were asked for, sent those of the
	// frames that left.
	asked, sent []tranid.ID
	// open is what Admits says.
	open error
}

// Exchange implements payment.Core.
func (c *scriptedCore) Exchange(ctx context.Context, call corelink.Call) corelink.Result {
	id, err := idOf(call)
	if err != nil {
		c.t.Errorf("a frame that is no request: %v", err)
		return corelink.Result{Sent: corelink.SentNone, Err: err}
	}
	c.checkIntent(id, call)
	c.note(&c.asked, id)
	res := c.do(ctx, call, id)
	if res.Sent != corelink.SentNone {
		c.note(&c.sent, id)
	}
	return res
}

// Admits implements payment.Core.
func (c *scriptedCore) Admits(corelink.Kind) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

func (c *scriptedCore) note(ids *[]tranid.ID, id tranid.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*ids = append(*ids, id)
}

// frames are the IDs of what left.
func (c *scriptedCore) frames() []tranid.ID {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]tranid.ID(nil), c.sent...)
}

func idOf(call corelink.Call) (tranid.ID, error) {
	if call.Kind == corelink.Inquiry {
		m, err := telegram.ParseBalanceRequest(call.Frame)
		return m.TranID, err
	}
	m, err := telegram.ParsePaymentRequest(call.Frame)
	return m.TranID, err
}

// checkIntent is promise P3: no frame without a durable row before it.
func (c *scriptedCore) checkIntent(id tranid.ID, call corelink.Call) {
	row, err := c.book.Get(context.Background(), id)
	if call.Kind == corelink.Inquiry {
		if !errors.Is(err, ledger.ErrNotFound) {
			c.t.Errorf("inquiry %s has a row before it ended: %v", id, err)
		}
		return
	}
	if err != nil || row.Status != ledger.StatusRequested {
		c.t.Errorf("%s is about to be sent, and its row is %s, %v; want REQUESTED", id, row.Status, err)
	}
	if call.Tx != corelink.TxPayment || call.Ready == nil {
		c.t.Errorf("a payment of tx %q, ready %t", call.Tx, call.Ready != nil)
	}
}

// answers is a core that answers with a code.
func answers(code string) exchange {
	return func(_ context.Context, call corelink.Call, id tranid.ID) corelink.Result {
		return answer(call, answerOf(call, id, code))
	}
}

func answerOf(call corelink.Call, id tranid.ID, code string) []byte {
	message := frame.Text{Value: "코어의 말"}
	var (
		b   []byte
		err error
	)
	if call.Kind == corelink.Inquiry {
		b, err = telegram.BalanceAnswer{TranID: id, Balance: 5000, ResponseCode: code, Message: message}.AppendTo(nil)
	} else {
		b, err = telegram.PaymentAnswer{TranID: id, ResponseCode: code, Message: message, ApprovalNo: 42}.AppendTo(nil)
	}
	if err != nil {
		panic(err)
	}
	return b
}

// answer is an exchange at the end of which these bytes were there.
func answer(call corelink.Call, b []byte) corelink.Result {
	res, ready := begin(call)
	if !ready {
		return res
	}
	res.AnsweredAt, res.Answer = time.Now(), b
	if err := call.Check(b); err != nil {
		res.Err = fmt.Errorf("%w: %w", corelink.ErrGarbage, err)
	}
	return res
}

// begin is a connection that is there, and the write.
func begin(call corelink.Call) (corelink.Result, bool) {
	if call.Ready != nil {
		if err := call.Ready(); err != nil {
			return corelink.Result{Sent: corelink.SentNone, Err: fmt.Errorf("%w: %w", corelink.ErrNotReady, err)}, false
		}
	}
	return corelink.Result{Sent: corelink.SentAll, SentAt: time.Now()}, true
}

// ends is a core of which so much is taken, and no answer comes.
func ends(sent corelink.Sent, err error) exchange {
	return func(_ context.Context, call corelink.Call, _ tranid.ID) corelink.Result {
		res, ready := begin(call)
		if !ready {
			return res
		}
		res.Sent, res.Err = sent, fmt.Errorf("%w: as the test wants it", err)
		if sent == corelink.SentNone {
			res.SentAt = time.Time{}
		}
		return res
	}
}

// after is an exchange that takes this long before it does what follows.
func after(d time.Duration, do exchange) exchange {
	return func(ctx context.Context, call corelink.Call, id tranid.ID) corelink.Result {
		time.Sleep(d)
		return do(ctx, call, id)
	}
}

// late sends, and has the answer only after d and what meanwhile does.
func late(d time.Duration, code string, meanwhile func(id tranid.ID)) exchange {
	return func(_ context.Context, call corelink.Call, id tranid.ID) corelink.Result {
		res, ready := begin(call)
		if !ready {
			return res
		}
		time.Sleep(d)
		if meanwhile != nil {
			meanwhile(id)
		}
		sentAt := res.SentAt
		call.Ready = nil
		res = answer(call, answerOf(call, id, code))
		res.SentAt = sentAt
		return res
	}
}

// inTurn does one after the other, and the last for ever.
func inTurn(each ...exchange) exchange {
	var mu sync.Mutex
	return func(ctx context.Context, call corelink.Call, id tranid.ID) corelink.Result {
		mu.Lock()
		do := each[0]
		if len(each) > 1 {
			each = each[1:]
		}
		mu.Unlock()
		return do(ctx, call, id)
	}
}
