// Package listing asks the core's listing port: what came into an account and
// went out of it, and which payments the core did on a day.
//
// It stands on corelink, whose exchange it uses with a connection for each call:
// there is no circuit and no retry, for a listing proves nothing about a payment
// that is under way, and whoever asks may ask again. What it returns is checked
// against the question; an answer that contradicts itself, or answers another
// question, is garbage (corelink.ErrGarbage) and never half a listing.
package listing

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Pool is the label of the metrics of listing connections.
const Pool = "core-listing"

// MaxEntries is the most that one question for a history may ask for.
const MaxEntries = telegram.HistoryAnswerMaxRecords

// PageSize is how many payments a page of the book has; one with fewer is the
// last.
const PageSize = telegram.BookAnswerMaxRecords

// The states of a payment in the book of a day.
const (
	StateDone     = "00"
	StateCanceled = "99"
)

// Flags say where listings are asked for. The rest of the settings are those of
// the link.
type Flags struct {
	ListingAddr []string `name:"listing-addr" placeholder:"HOST:PORT" default:"127.0.0.1:9097" help:"Where the core listens for listings, host:port; of several, the next is tried when one refuses."`
}

// Validate reports what is wrong with the settings, in one line.
func (f *Flags) Validate() error { return corelink.CheckAddresses("--listing-addr", f.ListingAddr) }

// Over is the settings of the link for listings: those of the core's, with the
// addresses of the listing port and a connection for each exchange.
func (f *Flags) Over(core corelink.Flags) corelink.Flags {
	core.CoreAddr = f.ListingAddr
	core.PoolIdleTTL = 0
	return core
}

// Link makes one exchange; a *corelink.Link over the flags of Over is one.
type Link interface {
	Exchange(ctx context.Context, call corelink.Call) corelink.Result
}

// Client asks for listings. It is safe for concurrent use.
type Client struct {
	link   Link
	now    func() time.Time
	within time.Duration
}

// New returns a Client over a link. Flags are those of the link; they bound how
// long Book takes.
func New(link Link, flags corelink.Flags, now func() time.Time) *Client {
	return &Client{link: link, now: now, within: flags.PoolWait + flags.ConnectTimeout + flags.ReadTimeout}
}

// Period is a question for the history of an account. All are required.
type Period struct {
	Account account.Number
	// From and To are the first and the last day.
	From, To tranid.Date
	// Max is how many entries may come, 1 to MaxEntries: the newest ones.
	Max int64
}

// The ways in which an answer contradicts its question.
var (
	errOther   = errors.New("the answer is to another question")
	errTooMany = errors.New("more records than were asked for")
	errPeriod  = errors.New("a record of a day that was not asked for")
	errOrder   = errors.New("transaction IDs do not ascend")
	errState   = errors.New("a state that is none")
)

// History asks what came into an account and went out of it, newest first, and
// ends by the deadline. The answer counts if, and only if, Result.Answered; it
// may be a decline.
func (c *Client) History(ctx context.Context, p Period, deadline time.Time) (telegram.HistoryAnswer, corelink.Result) {
	var answer telegram.HistoryAnswer
	request, err := telegram.HistoryRequest{
		Account: p.Account, FromDate: p.From, ToDate: p.To, MaxCount: p.Max,
	}.AppendTo(nil)
	if err != nil {
		return answer, corelink.Result{Sent: corelink.SentNone, Err: fmt.Errorf("write history request: %w", err)}
	}
	res := c.link.Exchange(ctx, corelink.Call{
		Tx: corelink.TxHistory, Kind: corelink.Inquiry, Frame: request, Deadline: deadline,
		AnswerLength: telegram.HistoryAnswerMaxLength, Prefix: telegram.PrefixLength,
		Check: func(b []byte) error {
			m, err := telegram.ParseHistoryAnswer(b)
			if err != nil {
				return fmt.Errorf("parse history answer: %w", err)
			}
			answer = m
			return p.check(m)
		},
	})
	if !res.Answered() {
		return telegram.HistoryAnswer{}, res
	}
	return answer, res
}

func (p Period) check(m telegram.HistoryAnswer) error {
	switch {
	case m.Account != p.Account:
		return errOther
	case int64(len(m.Records)) > p.Max:
		return errTooMany
	}
	from, to := p.From.Start(), p.To.Start()
	for i := range m.Records {
		if day := m.Records[i].Date.Start(); day.Before(from) || day.After(to) {
			return fmt.Errorf("record %d: %w", i, errPeriod)
		}
	}
	return nil
}

// DeclinedError says that the core answered a question and listed nothing.
type DeclinedError struct{ Code string }

// Error names the response code.
func (e *DeclinedError) Error() string { return "the core declined the listing with " + e.Code }

// Book asks for a page, from 0, of the payments whose transaction IDs bear a
// day. Its records stand strictly ascending by ID, all of that day, each
// StateDone or StateCanceled; a page with fewer than PageSize is the last, and
// may be empty. It ends by the deadline of ctx, and after the time-outs of the
// link at the latest.
//
// Pages are cut anew for each question: while the core still does payments of
// that day, one that comes before others shifts them. Whoever reads on after the
// last page must compare IDs, not places.
//
// Errors: those of corelink (ErrGarbage for an answer that lies), *DeclinedError,
// frame.ErrEncode for what cannot be asked.
func (c *Client) Book(ctx context.Context, day tranid.Date, page int64) (telegram.BookAnswer, error) {
	var answer telegram.BookAnswer
	request, err := telegram.BookRequest{SettleDate: day, Page: page}.AppendTo(nil)
	if err != nil {
		return answer, fmt.Errorf("write book request: %w", err)
	}
	deadline := c.now().Add(c.within)
	if callers, ok := ctx.Deadline(); ok && callers.Before(deadline) {
		deadline = callers
	}
	res := c.link.Exchange(ctx, corelink.Call{
		Tx: corelink.TxBook, Kind: corelink.Inquiry, Frame: request, Deadline: deadline,
		AnswerLength: telegram.BookAnswerMaxLength, Prefix: telegram.PrefixLength,
		Check: func(b []byte) error {
			m, err := telegram.ParseBookAnswer(b)
			if err != nil {
				return fmt.Errorf("parse book answer: %w", err)
			}
			answer = m
			return checkBook(m, day, page)
		},
	})
	switch {
	case !res.Answered():
		return telegram.BookAnswer{}, fmt.Errorf("read page %d of the book of %s: %w", page, day, res.Err)
	case answer.ResponseCode != frame.Done:
		return telegram.BookAnswer{}, fmt.Errorf("read page %d of the book of %s: %w", page, day, &DeclinedError{answer.ResponseCode})
	}
	return answer, nil
}

func checkBook(m telegram.BookAnswer, day tranid.Date, page int64) error {
	if m.SettleDate != day || m.Page != page {
		return errOther
	}
	var last tranid.ID
	for i := range m.Records {
		r := &m.Records[i]
		switch {
		case r.TranID.Date() != day:
			return fmt.Errorf("record %d: %w", i, errPeriod)
		case r.TranID <= last:
			return fmt.Errorf("record %d: %w", i, errOrder)
		case r.State != StateDone && r.State != StateCanceled:
			return fmt.Errorf("record %d: %w", i, errState)
		}
		last = r.TranID
	}
	return nil
}
