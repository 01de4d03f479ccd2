package simulator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// errIdle says that a connection had no frame for too long.
var errIdle = errors.New("idle for too long")

// errCut says that a connection ended within a frame.
var errCut = errors.New("the connection ended within a frame")

// deliveryError is an answer that did not reach its connection.
type deliveryError struct {
	mti    string // of the request
	tranID tranid.ID
	err    error
}

func (e *deliveryError) Error() string {
	return "answer a " + e.mti + " " + string(e.tranID) + ": " + e.err.Error()
}

func (e *deliveryError) Unwrap() error { return e.err }

// ServeConn serves one connection until the peer leaves, sends what is no frame
// or stays idle, a habit or a fault ends it, the bank is out of use, or ctx is
// done: a request that is held is then not done, one that is being written into
// the book is answered. It closes the connection.
func (s *Server) ServeConn(ctx context.Context, conn net.Conn) {
	frame := make([]byte, telegram.RequestLength)
	out := make([]byte, 0, telegram.AnswerLength)
	s.converse(ctx, conn, func(number int64, silent bool) error {
		if err := s.readFrame(ctx, conn, frame); err != nil {
			return err
		}
		if silent {
			return s.ignoreFrame(frame, number)
		}
		return s.serveFrame(ctx, conn, frame, number, out)
	})
}

// converse has each frame of a connection served by next, which is told the
// connection's number and whether it has fallen silent, until that errs.
func (s *Server) converse(ctx context.Context, conn net.Conn, next func(number int64, silent bool) error) {
	number := s.connections.Add(1)
	log := s.opts.Logger.With("connection", number, "remote", conn.RemoteAddr().String())
	// Ends a read that waits for the next frame.
	stop := context.AfterFunc(ctx, func() { _ = conn.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	defer func() { _ = conn.Close() }()
	log.DebugContext(ctx, "connection opened")

	for silent := false; ; {
		err := next(number, silent)
		switch {
		case err == nil:
		case errors.Is(err, errSilent) && !errors.Is(err, ErrBook):
			silent = true
		default:
			logEnd(ctx, log, err)
			return
		}
	}
}

// ignoreFrame journals a frame on a connection that has fallen silent, and does
// nothing more about it.
func (s *Server) ignoreFrame(frame []byte, number int64) error {
	q, err := parseRequest(frame)
	if err != nil {
		return err
	}
	q.connection = number
	return s.bank.abandon(q)
}

// readFrame fills frame with the next request, however its bytes arrive. It
// returns io.EOF when the peer leaves between two frames.
func (s *Server) readFrame(ctx context.Context, conn net.Conn, frame []byte) error {
	n, err := s.readWithin(ctx, conn, s.opts.IdleTimeout, frame, 1)
	if err != nil {
		return err
	}
	if n == len(frame) {
		return nil
	}
	_, err = s.readWithin(ctx, conn, s.opts.FrameTimeout, frame[n:], len(frame)-n)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", errCut, err)
	}
	return err
}

func (s *Server) readWithin(
	ctx context.Context, conn net.Conn, limit time.Duration, buf []byte, least int,
) (int, error) {
	if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return 0, err
	}
	if ctx.Err() != nil { // after the deadline is set, or it would undo that of ServeConn
		return 0, context.Cause(ctx)
	}
	n, err := io.ReadAtLeast(conn, buf, least)
	switch {
	case err != nil && ctx.Err() != nil:
		return n, context.Cause(ctx)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return n, errIdle
	default:
		return n, err
	}
}

// serveFrame does what the plan says about one frame. Its error ends the
// connection.
func (s *Server) serveFrame(ctx context.Context, conn net.Conn, frame []byte, number int64, out []byte) error {
	q, err := parseRequest(frame)
	if err != nil {
		return err
	}
	q.connection = number
	p := s.plan(q)
	ctx, telling := s.begin(ctx, q, p)
	defer telling.End()
	s.logFault(ctx, q, p)
	late := p.late && q.mti == telegram.PaymentRequestMTI
	if late {
		s.opts.Late.Begins(q.tranID)
	}
	if p.before != nil {
		if err := p.before(ctx, conn); err != nil {
			return errors.Join(err, s.bank.abandon(q))
		}
	}
	q.refusal, q.instead = p.refusal, p.instead
	d, err := s.bank.execute(q)
	if err != nil {
		return err
	}
	s.logDecision(ctx, q, d)
	tell(telling, d)
	if p.after != nil {
		if err := p.after(ctx, conn); err != nil {
			return err
		}
	}
	if late {
		s.opts.Late.Ends(q.tranID, d.code)
	}
	return s.sendAnswer(ctx, conn, p, q, d, out)
}

func (s *Server) sendAnswer(ctx context.Context, conn net.Conn, p plan, q request, d decision, out []byte) error {
	if p.answered != "" {
		d.code = p.answered
	}
	out, err := answer(out, q, d)
	if err != nil {
		return fmt.Errorf("encode an answer: %w", err)
	}
	return s.deliver(ctx, conn, p, q, d, out)
}

// deliver sends an answer, bent as the plan says.
func (s *Server) deliver(ctx context.Context, conn net.Conn, p plan, q request, d decision, out []byte) error {
	if p.bend != nil {
		out = p.bend(q, d, out)
	}
	send := p.send
	if send == nil {
		send = sendWhole
	}
	if err := send(ctx, conn, s.opts.WriteTimeout, out); err != nil {
		return &deliveryError{mti: q.mti, tranID: q.tranID, err: err}
	}
	return nil
}

func (s *Server) logFault(ctx context.Context, q request, p plan) {
	if p.fault == "" {
		return
	}
	s.opts.Logger.InfoContext(ctx, "fault strikes", "fault_id", p.fault, "action", p.action.String(),
		"connection", q.connection, "mti", q.mti, "transaction_id", string(q.tranID))
}

func (s *Server) logDecision(ctx context.Context, q request, d decision) {
	if !s.opts.Logger.Enabled(ctx, slog.LevelDebug) {
		return
	}
	s.opts.Logger.DebugContext(ctx, "frame decided", "connection", q.connection, "mti", q.mti,
		"transaction_id", string(q.tranID), "effect", d.effect.String(), "response_code", d.code)
}

// logEnd says why a connection ended. Errors of frames hold nothing of their
// bytes, which may be an account number anywhere.
func logEnd(ctx context.Context, log *slog.Logger, err error) {
	var undelivered *deliveryError
	switch {
	case errors.Is(err, errCut):
		log.WarnContext(ctx, "connection dropped: a frame was cut short", "error", err)
	case errors.Is(err, io.EOF), errors.Is(err, errHangUp), errors.Is(err, errShutdown), errors.Is(err, context.Canceled),
		errors.Is(err, ErrBook): // which Serve returns, once for all
		log.DebugContext(ctx, "connection closed", "reason", err.Error())
	case errors.Is(err, errNotFrame):
		log.WarnContext(ctx, "connection dropped: what it sent is no frame", "error", err)
	case errors.Is(err, errIdle):
		log.InfoContext(ctx, "connection closed: idle")
	case errors.As(err, &undelivered):
		log.WarnContext(ctx, "answer not delivered", "mti", undelivered.mti,
			"transaction_id", string(undelivered.tranID), "error", undelivered.err)
	default:
		log.InfoContext(ctx, "connection lost", "error", err)
	}
}
