package corelink_test

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Every concurrent exchange gets the answer to its own request.
func TestExchange_Concurrent(t *testing.T) {
	h := serve(t, func(conn *net.TCPConn) error {
		b := make([]byte, telegram.RequestLength)
		if _, err := io.ReadFull(conn, b); err != nil {
			return err
		}
		m, err := telegram.ParsePaymentRequest(b)
		if err != nil {
			return err
		}
		if _, err := conn.Write(approval(m.TranID)); err != nil {
			return err
		}
		return outlast(conn)
	})
	link := newLink(t, patient(h.addr), dialer())
	var work sync.WaitGroup
	for n := range 50 {
		work.Go(func() {
			call := callFor(t, tranid.ID(fmt.Sprintf("GWMNU20260301%09d", n)))
			if res := link.Exchange(t.Context(), call); !res.Answered() {
				t.Errorf("exchange %d: sent %s, error %v", n, res.Sent, res.Err)
			}
		})
	}
	work.Wait()
}

// openFiles is how many descriptors this process has.
func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if errors.Is(err, os.ErrNotExist) {
		t.Skip("no /proc here")
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestExchange_LeavesNoSocketBehind(t *testing.T) {
	quick := patient()
	quick.ReadTimeout = time.Millisecond
	behaviours := []func(*net.TCPConn) error{
		answering(approval(paymentID)), answering(approval(otherID)), sendAndClose(nil), sendAndReset(nil), outlastAll,
	}
	before := openFiles(t)
	for _, behave := range behaviours {
		h := serve(t, behave)
		quick.CoreAddr = []string{h.addr}
		for range 20 {
			newLink(t, quick, dialer()).Exchange(t.Context(), callFor(t, paymentID))
			t.Logf("ended: %v", <-h.ends)
		}
	}
	// A listener of each behaviour is still open, and a core may be closing its
	// last connection.
	if after := openFiles(t); after > before+2*len(behaviours) {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func outlastAll(conn *net.TCPConn) error {
	_, err := io.Copy(io.Discard, conn)
	return err
}

// observed is how many round trips of each tx were timed.
func observed(t *testing.T, registry *prometheus.Registry) map[string]uint64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := make(map[string]uint64)
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "gwanmun_core_roundtrip_seconds" {
				counts[m.GetLabel()[0].GetValue()] = m.GetHistogram().GetSampleCount()
			}
		}
	}
	return counts
}

func TestExchange_TimesWhatLeft(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := serve(t, answering(approval(paymentID)))
	link := corelink.New(corelink.Options{
		Flags: patient(refusing(t), h.addr), Name: "test", Dial: dialer(), Now: time.Now, Metrics: corelink.NewMetrics(registry),
	})
	call := callFor(t, paymentID)
	link.Exchange(t.Context(), call)
	call.Check = func([]byte) error { return errEcho }
	link.Exchange(t.Context(), call)
	call.Ready = func() error { return errEcho }
	link.Exchange(t.Context(), call)
	// Those two that sent something; what was never used has its series too.
	want := map[string]uint64{
		corelink.TxBalance: 0, corelink.TxPayment: 2, corelink.TxStatusInquiry: 0, corelink.TxNetCancel: 0,
		corelink.TxHistory: 0, corelink.TxBook: 0,
	}
	if counts := observed(t, registry); !maps.Equal(counts, want) {
		t.Errorf("timed %v, want %v", counts, want)
	}
	call.Ready, call.Tx = nil, "another"
	link.Exchange(t.Context(), call)
	want[call.Tx] = 1
	if counts := observed(t, registry); !maps.Equal(counts, want) {
		t.Errorf("timed %v, want %v", counts, want)
	}
}

func TestFlags_Validate(t *testing.T) {
	cases := map[string]struct {
		change func(*corelink.Flags)
		says   string
	}{
		"as they are":                 {func(*corelink.Flags) {}, ""},
		"IPv6":                        {func(f *corelink.Flags) { f.CoreAddr = []string{"[::1]:9099"} }, ""},
		"no address":                  {func(f *corelink.Flags) { f.CoreAddr = nil }, "--core-addr"},
		"no port":                     {func(f *corelink.Flags) { f.CoreAddr = append(f.CoreAddr, "core") }, "--core-addr"},
		"empty port":                  {func(f *corelink.Flags) { f.CoreAddr = []string{"core:"} }, "--core-addr"},
		"letters for a port":          {func(f *corelink.Flags) { f.CoreAddr = []string{"core:frames"} }, "--core-addr"},
		"port 0":                      {func(f *corelink.Flags) { f.CoreAddr = []string{"core:0"} }, "--core-addr"},
		"port 65536":                  {func(f *corelink.Flags) { f.CoreAddr = []string{"core:65536"} }, "--core-addr"},
		"no place":                    {func(f *corelink.Flags) { f.PoolSize = 0 }, "--pool-size"},
		"too many places":             {func(f *corelink.Flags) { f.PoolSize = 4097 }, "--pool-size"},
		"negative wait":               {func(f *corelink.Flags) { f.PoolWait = -1 }, "--pool-wait"},
		"no wait":                     {func(f *corelink.Flags) { f.PoolWait = 0 }, ""},
		"negative TTL":                {func(f *corelink.Flags) { f.PoolIdleTTL = -1 }, "--pool-idle-ttl"},
		"no TTL":                      {func(f *corelink.Flags) { f.PoolIdleTTL = 0 }, ""},
		"no read time-out":            {func(f *corelink.Flags) { f.ReadTimeout = 0 }, "--read-timeout"},
		"negative connecting":         {func(f *corelink.Flags) { f.ConnectTimeout = -1 }, "--connect-timeout"},
		"in the clear, and who signs": {func(f *corelink.Flags) { f.CoreTLSCA = "ca.pem" }, "--core-tls is missing"},
		"in the clear, and a name":    {func(f *corelink.Flags) { f.CoreTLSName = "core.bank" }, "--core-tls is missing"},
		"TLS, and a name":             {func(f *corelink.Flags) { f.CoreTLS, f.CoreTLSName = true, "core.bank" }, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			flags := customary("127.0.0.1:9099")
			c.change(&flags)
			err := flags.Validate()
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that says %q", err, c.says)
			}
		})
	}
}

func TestNewTCP(t *testing.T) {
	h := serve(t, steady)
	link, err := corelink.NewTCP(keeping(h.addr), "test", corelink.NewMetrics(prometheus.NewRegistry()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = link.Close() }()
	for n := range 3 {
		answered(t, link, nth(n))
	}
	if accepted, _ := h.seen(); accepted != 1 {
		t.Errorf("%d connections, want 1", accepted)
	}
}

func TestSent_String(t *testing.T) {
	for sent, name := range map[corelink.Sent]string{
		corelink.SentNone: "none", corelink.SentSome: "some", corelink.SentAll: "all", 0: "INVALID(0)",
	} {
		if sent.String() != name {
			t.Errorf("%d is %q, want %q", uint8(sent), sent, name)
		}
	}
}
