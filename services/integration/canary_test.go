package integration

import (
	"bytes"
	"context"
	"encoding/hex"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// minCanary is the length from which on a number does not occur by chance.
const minCanary = 11

// canary knows every account number that a stack was given, and looks for it
// where none may be: logs, answers, tables. It is safe for concurrent use.
type canary struct {
	mu      sync.Mutex
	numbers map[string]bool
	looks   int
}

// learn takes in what a caller wrote where an account number belongs, be it one
// or not.
func (c *canary) learn(number string) {
	if len(number) < minCanary || strings.Trim(number, "0") == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.numbers == nil {
		c.numbers = map[string]bool{}
	}
	c.numbers[number] = true
}

// find is a number that the text holds, as it is or in hex; empty if it holds
// none.
func (c *canary) find(text string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	for number := range c.numbers {
		if strings.Contains(text, number) || strings.Contains(strings.ToLower(text), hex.EncodeToString([]byte(number))) {
			return number
		}
	}
	return ""
}

// look fails the test if the text holds an account number.
func (c *canary) look(t testing.TB, where, text string) {
	t.Helper()
	if number := c.find(text); number != "" {
		t.Errorf("%s: the account number %s is in it", where, number)
	}
}

// unary learns from every request, and looks at every answer: message, status,
// header and trailer.
func (c *canary) unary(t testing.TB) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if r, ok := req.(interface{ GetAccountNumber() string }); ok {
			c.learn(r.GetAccountNumber())
		}
		var header, trailer metadata.MD
		err := invoke(ctx, method, req, reply, cc, append(opts, grpc.Header(&header), grpc.Trailer(&trailer))...)
		c.look(t, "the answer of "+method, answered(reply, err, header, trailer))
		return err
	}
}

// stream looks at every message of a stream.
func (c *canary) stream(t testing.TB) grpc.StreamClientInterceptor {
	return func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s, err := open(ctx, desc, cc, method, opts...)
		return &watchedStream{ClientStream: s, look: func(m any, err error) {
			c.look(t, "the stream of "+method, answered(m, err, nil, nil))
		}}, err
	}
}

type watchedStream struct {
	grpc.ClientStream

	look func(m any, err error)
}

// RecvMsg receives one message and looks at it.
func (s *watchedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	s.look(m, err)
	return err
}

// answered is all of an answer in one text. Text fields are as they are in the
// wire format.
func answered(reply any, err error, mds ...metadata.MD) string {
	var all bytes.Buffer
	if m, ok := reply.(proto.Message); ok && err == nil {
		wire, _ := proto.Marshal(m) // it was just unmarshaled
		all.Write(wire)
	}
	if err != nil {
		all.WriteString(err.Error())
		wire, _ := proto.Marshal(status.Convert(err).Proto())
		all.Write(wire)
	}
	for _, md := range mds {
		for key, values := range md {
			all.WriteString(key + strings.Join(values, "\n"))
		}
	}
	return all.String()
}
