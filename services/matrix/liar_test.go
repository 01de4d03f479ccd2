package matrix

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// liar is a core that forges answers: it knows which request comes next, and
// has its answer ready. The simulator's faults never use an ID that is anyone's.
type liar struct {
	t        testing.TB
	listener *net.TCPListener
	served   sync.WaitGroup

	mu sync.Mutex
	// treat is what it does with a request; nil answers honestly.
	treat func(r request)
	conns []*net.TCPConn
	marks map[tranid.ID]int64
}

// request is a frame that arrived.
type request struct {
	conn *net.TCPConn
	mti  string
	id   tranid.ID
}

// forged is what no honest answer says.
const forged = 66_666_666_666

func openLiar(t testing.TB) *liar {
	l := &liar{t: t, listener: listen(t), marks: map[tranid.ID]int64{}}
	l.served.Go(func() {
		for {
			conn, err := l.listener.AcceptTCP()
			if err != nil {
				return
			}
			l.mu.Lock()
			l.conns = append(l.conns, conn)
			l.mu.Unlock()
			l.served.Go(func() { l.serve(conn) })
		}
	})
	return l
}

// close ends it; the houses before it are closed by then.
func (l *liar) close() {
	_ = l.listener.Close()
	l.served.Wait()
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

// serve reads requests until the caller hangs up, and closes nothing: what is
// late may still be said.
func (l *liar) serve(conn *net.TCPConn) {
	b := make([]byte, telegram.RequestLength)
	for {
		if _, err := io.ReadFull(conn, b); err != nil {
			return
		}
		r := request{conn: conn, mti: telegram.MTI(b), id: tranid.ID(b[4 : 4+tranid.Length])}
		if m, err := telegram.ParsePaymentRequest(b); err == nil && m.Amount == lostAmount {
			_ = conn.Close() // of a payment that is to be lost
			return
		}
		l.mu.Lock()
		if l.marks[r.id] == 0 {
			l.marks[r.id] = int64(1_000 + len(l.marks))
		}
		treat := l.treat
		l.mu.Unlock()
		if treat == nil {
			treat = l.honest
		}
		treat(r)
	}
}

// will changes what it does with requests.
func (l *liar) will(treat func(r request)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.treat = treat
}

// honest answers a request with its own mark.
func (l *liar) honest(r request) { l.say(r.conn, answer(r.mti, r.id, l.mark(r.id))) }

// mark is what the honest answer to a transaction says.
func (l *liar) mark(id tranid.ID) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.marks[id]
}

// say writes to a connection, whose other end may have gone.
func (l *liar) say(conn *net.TCPConn, b []byte) { _, _ = conn.Write(b) }

// answer is an answer to a request, with a mark. Where there is no room for one,
// the forged answer says what would lead elsewhere.
func answer(mti string, id tranid.ID, mark int64) []byte {
	var (
		b    []byte
		err  error
		text = frame.Text{Value: "응답"}
	)
	switch mti {
	case telegram.PaymentRequestMTI:
		b, err = telegram.PaymentAnswer{TranID: id, ResponseCode: frame.Done, Message: text, ApprovalNo: mark}.AppendTo(nil)
	case telegram.BalanceRequestMTI:
		b, err = telegram.BalanceAnswer{TranID: id, ResponseCode: frame.Done, Message: text, Balance: account.Won(mark)}.AppendTo(nil)
	case telegram.StatusRequestMTI:
		b, err = telegram.StatusAnswer{TranID: id, ResponseCode: frame.Done, Message: text, Processed: either(mark, "01", "03")}.AppendTo(nil)
	default:
		b, err = telegram.CancelAnswer{TranID: id, ResponseCode: frame.Done, Message: text, CancelResult: either(mark, "01", "02")}.AppendTo(nil)
	}
	if err != nil {
		panic(fmt.Sprintf("encode the answer to a %s: %v", mti, err))
	}
	return b
}

func either(mark int64, honest, lie string) string {
	if mark == forged {
		return lie
	}
	return honest
}

// following is the ID that is given out after one.
func following(id tranid.ID) tranid.ID {
	const digits = 9
	n, err := strconv.ParseInt(string(id[len(id)-digits:]), 10, 64)
	if err != nil {
		panic(err)
	}
	return tranid.New(id.Date(), n+1)
}
