package audit

import (
	"strconv"
	"strings"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// The frames of the link port, by the contract (DESIGN §4).
const (
	requestLength = 52
	answerLength  = 61
	idEnd         = 26
	amountStart   = 40
)

// Frame is what stands at the start of any frame.
type Frame struct {
	MTI string
	ID  tranid.ID
}

// FrameOf reads the start of a frame; what is shorter is zero.
func FrameOf(b []byte) Frame {
	if len(b) < idEnd {
		return Frame{}
	}
	return Frame{string(b[:4]), tranid.ID(strings.TrimRight(string(b[4:idEnd]), " "))}
}

// Socket is one connection to the core's link port, as its user sees it.
type Socket struct {
	a *Auditor
	// asked is the request that waits for its answer; came is what came of that.
	asked Frame
	came  []byte
	// unfit is why nothing may be sent on it any more; empty while it is fit.
	unfit string
}

// Socket is told of a connection.
func (a *Auditor) Socket() *Socket { return &Socket{a: a} }

// Sends is told a request whose first byte is about to leave.
func (s *Socket) Sends(b []byte) {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	f := FrameOf(b)
	if s.unfit != "" {
		s.a.broken("a socket with an unanswered request or an anomaly is never used again", f.ID, "a %s left on one on which %s", f.MTI, s.unfit)
	}
	s.asked, s.came = f, nil
	s.unfit = "a request is unanswered"
	s.a.leaves(f, b)
}

// Torn is told a request of which no more than this left before the connection ended.
func (s *Socket) Torn(b []byte) {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.unfit = "a request was cut"
	f := FrameOf(b)
	if f.ID == "" || f.MTI == mtiInquiry {
		return
	}
	p := s.a.of(f.ID)
	if !p.seen {
		s.a.broken("every byte that left had an intent before", f.ID, "a part of a %s left, and there is no row", f.MTI)
	}
	if f.MTI == mtiPayment {
		s.a.countPayment(p)
	}
}

// Cut is told that a request did not leave whole.
func (s *Socket) Cut() {
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	s.asked, s.unfit = Frame{}, "a request was cut"
}

// Hears is told what was read from the connection.
func (s *Socket) Hears(b []byte) {
	if len(b) == 0 {
		return
	}
	s.a.mu.Lock()
	defer s.a.mu.Unlock()
	if s.asked.MTI == "" {
		s.unfit = "a stray byte came"
		return
	}
	s.came = append(s.came, b...)
	if len(s.came) < answerLength {
		return
	}
	f := FrameOf(s.came)
	switch {
	case len(s.came) > answerLength:
		s.unfit = "more than an answer came"
	case f.ID != s.asked.ID || f.MTI[:2] != s.asked.MTI[:2] || f.MTI[2:] != "10" && f.MTI[2:] != "30":
		s.unfit = "what came is no answer to the request"
	default:
		s.unfit = ""
	}
	s.asked = Frame{}
}

// leaves is a request of which a byte leaves.
func (a *Auditor) leaves(f Frame, b []byte) {
	if f.MTI == mtiInquiry {
		return // an inquiry has no intent
	}
	p := a.of(f.ID)
	if !p.seen {
		a.broken("every byte that left had an intent before", f.ID, "a %s left, and there is no row", f.MTI)
	}
	switch f.MTI {
	case mtiPayment:
		a.paymentLeaves(p, b)
	case mtiCancel:
		if p.row.Decision == 0 || p.row.Status == ledger.StatusSuccess {
			a.broken("a decision comes before a net cancel", f.ID, "a 0420 left, the row is %s and the decision %q", p.row.Status, p.row.Decision)
		}
	}
}

// countPayment is a 0100 of which at least a part leaves.
func (a *Auditor) countPayment(p *payment) {
	if p.frames++; p.frames > 1 {
		a.broken("at most one 0100 for a transaction", p.id, "%d left", p.frames)
	}
	if p.unsent || p.seen && neverSent(&p.row) {
		a.broken("NOT_SENT means that no byte left", p.id, "a frame leaves after that was said")
	}
}

func (a *Auditor) paymentLeaves(p *payment, b []byte) {
	a.countPayment(p)
	if len(b) != requestLength {
		a.broken("a frame has its length", p.id, "%d bytes", len(b))
		return
	}
	amount, err := strconv.ParseInt(string(b[amountStart:]), 10, 64)
	if err != nil || p.seen && account.Won(amount) != p.row.Amount {
		a.broken("a frame asks for what the row says", p.id, "another amount")
	}
}
