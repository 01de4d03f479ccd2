package simulator

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// maxListingRequest is the longest request of the listing port, the prefix
// included.
const maxListingRequest = max(telegram.HistoryRequestLength, telegram.BookRequestLength)

// listing is a request of the listing port: of its type alone the fields are
// set.
type listing struct {
	request

	from, to tranid.Date // 0300
	most     int64       // 0300
	day      tranid.Date // 0500
	page     int64       // 0500
}

// parseListing reads a request of the listing port with its prefix. Its error
// wraps errNotFrame and holds nothing of the bytes.
func parseListing(b []byte) (listing, error) {
	switch mti := telegram.MTI(b[telegram.PrefixLength:]); mti {
	case telegram.HistoryRequestMTI:
		m, err := telegram.ParseHistoryRequest(b)
		return listing{
			request: request{mti: mti, account: m.Account}, from: m.FromDate, to: m.ToDate, most: m.MaxCount,
		}, notFrame(err)
	case telegram.BookRequestMTI:
		m, err := telegram.ParseBookRequest(b)
		return listing{request: request{mti: mti}, day: m.SettleDate, page: m.Page}, notFrame(err)
	default:
		return listing{}, fmt.Errorf("%w: unknown message type", errNotFrame)
	}
}

// ServeListings is Serve for the listing port.
func (s *Server) ServeListings(ctx context.Context, l net.Listener) error {
	return s.serve(ctx, l, s.ServeListingConn)
}

// ServeListingConn is ServeConn for the listing port. A listing changes nothing
// and is no entry of the journal.
func (s *Server) ServeListingConn(ctx context.Context, conn net.Conn) {
	buf := make([]byte, maxListingRequest)
	s.converse(ctx, conn, func(number int64, silent bool) error {
		b, err := s.readListing(ctx, conn, buf)
		if err != nil || silent {
			return err
		}
		q, err := parseListing(b)
		if err != nil {
			return err
		}
		q.connection = number
		return s.serveListing(ctx, conn, q)
	})
}

// readListing reads the next request into buf, by its prefix.
func (s *Server) readListing(ctx context.Context, conn net.Conn, buf []byte) ([]byte, error) {
	prefix := buf[:telegram.PrefixLength]
	if err := s.readFrame(ctx, conn, prefix); err != nil {
		return nil, err
	}
	length, ok := frame.PrefixValue(prefix)
	if length += len(prefix); !ok || length > len(buf) || length < len(prefix)+len(telegram.HistoryRequestMTI) {
		return nil, fmt.Errorf("%w: no prefix of a request", errNotFrame)
	}
	rest := buf[len(prefix):length]
	if _, err := s.readWithin(ctx, conn, s.opts.FrameTimeout, rest, len(rest)); err != nil {
		if ctx.Err() == nil {
			err = fmt.Errorf("%w: %w", errCut, err)
		}
		return nil, err
	}
	return buf[:length], nil
}

// serveListing does what the plan says about one request. Its error ends the
// connection.
func (s *Server) serveListing(ctx context.Context, conn net.Conn, q listing) error {
	p := s.planListing(q.request)
	s.logFault(ctx, q.request, p)
	if p.before != nil {
		if err := p.before(ctx, conn); err != nil {
			return err
		}
	}
	instead := p.instead
	if p.answered != "" { // nothing is executed, so both points are one
		instead = p.answered
	}
	out, err := s.bank.list(q, instead)
	if err != nil {
		return err
	}
	if p.after != nil {
		if err := p.after(ctx, conn); err != nil {
			return err
		}
	}
	return s.deliver(ctx, conn, p, q.request, decision{}, out)
}

// list returns the answer to a listing, once all that it tells is durable: with
// the code instead, which lists nothing, unless it is empty.
func (b *Bank) list(q listing, instead string) ([]byte, error) {
	write := b.writeBook
	if q.mti == telegram.HistoryRequestMTI {
		write = b.writeHistory
	}
	if instead != "" {
		return write(q, instead)
	}
	out, err := write(q, codeDone)
	if errors.Is(err, frame.ErrEncode) { // a sum that its field cannot carry
		return write(q, codeUnable)
	}
	return out, err
}

// The words for what happened to an account, strict EUC-KR of at most 12 bytes.
var wordsByCause = map[cause]string{
	causeOpened: "계좌개설", causeSet: "잔액조정", causeDebit: "결제", causeCancel: "결제취소",
}

// writeHistory writes a 0310, with its records if the code is 0000.
func (b *Bank) writeHistory(q listing, code string) ([]byte, error) {
	m := telegram.HistoryAnswer{Account: q.account, ResponseCode: code}
	switch {
	case code != codeDone:
	case q.account == nobody:
		m.ResponseCode = codeNoAccount
	case q.most < 1 || q.most > telegram.HistoryAnswerMaxRecords:
		m.ResponseCode = codeUnable
	}
	if m.ResponseCode != codeDone {
		return m.AppendTo(nil)
	}
	b.mu.Lock()
	var movements []movement
	if st := b.state.statements[q.account]; st != nil {
		movements = st.newest(q.from, q.to, int(q.most))
	}
	last := b.last
	b.mu.Unlock()
	if err := b.await(last); err != nil {
		return nil, err
	}
	for i, mv := range movements {
		r := telegram.HistoryRecord{
			Seq: int64(i + 1), Date: mv.day, Type: frame.Text{Value: "입금"}, Amount: mv.change,
			BalanceAfter: mv.after, Summary: frame.Text{Value: wordsByCause[mv.cause]},
		}
		if mv.change < 0 {
			r.Type.Value, r.Amount = "출금", -mv.change
		}
		m.Records = append(m.Records, r)
	}
	return m.AppendTo(nil)
}

// The states of a payment in the book of a day.
const (
	stateDone     = "00"
	stateCanceled = "99"
)

// writeBook writes a 0510, with its records if the code is 0000.
func (b *Bank) writeBook(q listing, code string) ([]byte, error) {
	m := telegram.BookAnswer{SettleDate: q.day, Page: q.page, ResponseCode: code}
	if code != codeDone {
		return m.AppendTo(nil)
	}
	const size = telegram.BookAnswerMaxRecords
	b.mu.Lock()
	var lines []bookLine
	if book := b.state.days[q.day]; book != nil {
		lines = book.page(q.page*size, size)
	}
	last := b.last
	b.mu.Unlock()
	if err := b.await(last); err != nil {
		return nil, err
	}
	for _, l := range lines {
		r := telegram.BookRecord{
			TranID: tranid.New(q.day, int64(l.number)), Account: l.account, Amount: l.amount, State: stateDone,
		}
		if l.canceled {
			r.State = stateCanceled
		}
		m.Records = append(m.Records, r)
	}
	return m.AppendTo(nil)
}
