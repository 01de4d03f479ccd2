package rpcserver_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/health/grpc_health_v1"

	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// switchable is a Ready that a test turns on and off.
type switchable struct {
	on atomic.Bool
}

func (s *switchable) ready(context.Context) error {
	if s.on.Load() {
		return nil
	}
	return errors.New("dial tcp 10.0.0.1:5432: connection refused")
}

func (e *edge) health(t *testing.T, service string) string {
	t.Helper()
	resp, err := grpc_health_v1.NewHealthClient(e.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetStatus().String()
}

func TestHealth_FollowsReadinessAndOverlooksOneMiss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var book switchable
		e := newEdge(t, echo(), book.ready)
		want := func(when, status string) {
			t.Helper()
			for _, service := range []string{"", paymentv1.PaymentService_ServiceDesc.ServiceName} {
				if got := e.health(t, service); got != status {
					t.Errorf("%s: %q is %s, want %s", when, service, got, status)
				}
			}
		}
		time.Sleep(1500 * time.Millisecond) // looks at 0 s and 1 s
		want("never ready", "NOT_SERVING")
		book.on.Store(true)
		time.Sleep(time.Second)
		want("ready", "SERVING")
		book.on.Store(false)
		time.Sleep(time.Second)
		want("one miss", "SERVING")
		book.on.Store(true)
		time.Sleep(time.Second)
		book.on.Store(false)
		time.Sleep(time.Second)
		want("another miss, but not in a row", "SERVING")
		time.Sleep(time.Second)
		want("two misses", "NOT_SERVING")
		book.on.Store(true)
		time.Sleep(time.Second)
		want("ready again", "SERVING")

		if unready, ready := e.log.of(t, "not ready"), e.log.of(t, "ready"); len(unready) != 2 || len(ready) != 2 ||
			unready[0]["level"] != "WARN" || !strings.Contains(unready[0]["error"].(string), "refused") {
			t.Errorf("changes are logged as %v and %v", unready, ready)
		}
	})
}

// A book that hangs is a book that is not there.
func TestHealth_AReadyThatHangsIsAMiss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEdge(t, echo(), func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		began := time.Now()
		if code, body := e.fetch(t, "GET", "/readyz"); code != 503 || body != "not ready\n" {
			t.Errorf("readyz is %d %q", code, body)
		}
		if waited := time.Since(began); waited != 2*time.Second {
			t.Errorf("it took %s, want 2s", waited)
		}
		if got := e.health(t, ""); got != "NOT_SERVING" {
			t.Errorf("health is %s", got)
		}
	})
}

func TestAdmin_ServesThreePathsAndNothingElse(t *testing.T) {
	var book switchable
	e := newEdge(t, echo(), book.ready)
	for _, c := range []struct {
		method, path string
		code         int
		body         string
	}{
		{"GET", "/livez", 200, "ok\n"},
		{"HEAD", "/livez", 200, ""},
		{"GET", "/readyz", 503, "not ready\n"},
		{"GET", "/", 404, "404 page not found\n"},
		{"GET", "/debug/pprof/", 404, "404 page not found\n"},
		{"GET", "/livez/", 404, "404 page not found\n"},
		{"GET", "/metrics/x", 404, "404 page not found\n"},
		{"POST", "/livez", 405, "Method Not Allowed\n"},
		{"DELETE", "/metrics", 405, "Method Not Allowed\n"},
	} {
		if code, body := e.fetch(t, c.method, c.path); code != c.code || body != c.body {
			t.Errorf("%s %s is %d %q, want %d %q", c.method, c.path, code, body, c.code, c.body)
		}
	}
	book.on.Store(true)
	if code, body := e.fetch(t, "GET", "/readyz"); code != 200 || body != "ok\n" {
		t.Errorf("readyz is %d %q", code, body)
	}
	if code, body := e.fetch(t, "GET", "/metrics", "Accept", "application/openmetrics-text; version=1.0.0"); code != 200 ||
		!strings.HasSuffix(body, "# EOF\n") || !strings.Contains(body, "gwanmun_build_info") {
		t.Errorf("metrics are %d, and not OpenMetrics", code)
	}
}

func TestAdmin_TellsABrowserToMakeNothingOfIt(t *testing.T) {
	e := newEdge(t, &payments{}, nil)
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/nothing"} {
		header := e.headers(t, path)
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'", "X-Frame-Options": "DENY",
		} {
			if got := header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
}
