package corelink_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// sites are cores at several addresses, some of them down.
type sites struct {
	down   map[string]bool
	dialed []string
}

var errDown = errors.New("nobody there")

func (s *sites) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	s.dialed = append(s.dialed, addr)
	if s.down[addr] {
		return nil, errDown
	}
	return piped(obliging)(ctx, network, addr)
}

// tried is what was dialed since it was asked last.
func (s *sites) tried() []string {
	dialed := s.dialed
	s.dialed = nil
	return dialed
}

// The address that worked is tried first until it refuses; then each other one,
// in their order, once.
func TestPool_Addresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &sites{}
		link := newLink(t, patient("a", "b", "c"), s.dial)
		for n, step := range []struct {
			down  string
			tried string
			err   error
		}{
			{"", "a", nil},
			{"c", "a", nil},
			{"a", "ab", nil},
			{"a", "b", nil},
			{"", "b", nil},
			{"b", "bc", nil},
			{"abc", "cab", corelink.ErrConnect},
			{"abc", "cab", corelink.ErrConnect},
			{"b", "c", nil},
			{"c", "ca", nil},
			{"", "a", nil},
		} {
			s.down = map[string]bool{}
			for _, addr := range step.down {
				s.down[string(addr)] = true
			}
			res := link.Exchange(t.Context(), callFor(t, nth(n)))
			if !errors.Is(res.Err, step.err) || (step.err == nil) != res.Answered() {
				t.Fatalf("step %d: sent %s, error %v", n+1, res.Sent, res.Err)
			}
			var want []string
			for _, addr := range step.tried {
				want = append(want, string(addr))
			}
			if tried := s.tried(); !slices.Equal(tried, want) {
				t.Fatalf("step %d: tried %v, want %v", n+1, tried, want)
			}
		}
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
}
