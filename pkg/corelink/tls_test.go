package corelink_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/corelink"
)

// authority signs the certificate of a core that is called so.
func authority(t testing.TB, names ...string) (server *tls.Config, caFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: names, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, caFile
}

// gathering holds back what is written to it until it is flushed, so that it
// arrives at once.
type gathering struct {
	net.Conn
	hold bool
	kept bytes.Buffer
}

func (c *gathering) Write(b []byte) (int, error) {
	if c.hold {
		return c.kept.Write(b)
	}
	return c.Conn.Write(b)
}

func (c *gathering) flush() error {
	c.hold = false
	// Who has said goodbye in TLS may not write, by a deadline that it set.
	_ = c.SetWriteDeadline(time.Time{})
	_, err := c.kept.WriteTo(c.Conn)
	return err
}

// secured is a core over TLS that answers each request, and writes more behind
// its first answer, in a record of its own.
func secured(config *tls.Config, more func(conn *tls.Conn) error) func(*net.TCPConn) error {
	return func(raw *net.TCPConn) error {
		wire := &gathering{Conn: raw}
		conn := tls.Server(wire, config)
		for n := 0; ; n++ {
			id, err := asked(conn)
			if err != nil {
				return ended(err)
			}
			wire.hold = true
			_, err = conn.Write(approval(id))
			if err == nil && n == 0 && more != nil {
				err = more(conn)
			}
			if err := errors.Join(err, wire.flush()); err != nil {
				return err
			}
		}
	}
}

func securely(t testing.TB, flags corelink.Flags, caFile string) (link *corelink.Link, metric func(string) int) {
	t.Helper()
	flags.CoreTLS, flags.CoreTLSCA, flags.CoreTLSName = true, caFile, "core.test"
	dial, err := flags.Dialer()
	if err != nil {
		t.Fatal(err)
	}
	return newCounted(t, flags, dial)
}

func TestTLS_ConnectionIsKept(t *testing.T) {
	for name, version := range map[string]uint16{"1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13} {
		t.Run(name, func(t *testing.T) {
			config, ca := authority(t, "core.test")
			config.MinVersion, config.MaxVersion = version, version
			h := serve(t, secured(config, nil))
			link, metric := securely(t, keeping(h.addr), ca)
			for n := range 5 {
				answered(t, link, nth(n))
			}
			if accepted, _ := h.seen(); accepted != 1 || metric("reused") != 4 {
				t.Errorf("%d connections, %d reused", accepted, metric("reused"))
			}
		})
	}
}

// What came behind an answer is noticed before the next request leaves, also
// where it came in a record of its own together with the answer's.
func TestTLS_ConnectionWithMoreThanTheAnswerIsNotUsedAgain(t *testing.T) {
	for name, more := range map[string]func(*tls.Conn) error{
		"a stray answer": func(conn *tls.Conn) error { _, err := conn.Write(approval(otherID)); return err },
		"a stray byte":   func(conn *tls.Conn) error { _, err := conn.Write([]byte{0}); return err },
		"a goodbye":      func(conn *tls.Conn) error { return conn.CloseWrite() },
	} {
		t.Run(name, func(t *testing.T) {
			config, ca := authority(t, "core.test")
			h := serve(t, secured(config, more))
			link, metric := securely(t, keeping(h.addr), ca)
			for n := range 3 {
				answered(t, link, nth(n))
			}
			if accepted, _ := h.seen(); accepted != 3 || metric("destroyed") != 2 {
				t.Errorf("%d connections, %d destroyed; want 3 and 2", accepted, metric("destroyed"))
			}
		})
	}
}

func TestTLS_NothingIsSentToACoreThatIsNotTheCore(t *testing.T) {
	config, ca := authority(t, "another.test")
	_, otherCA := authority(t, "core.test")
	silent := func(conn *net.TCPConn) error {
		_, err := conn.Read(make([]byte, 1<<16))
		return errors.Join(err, conn.Close())
	}
	for name, c := range map[string]struct {
		behave func(*net.TCPConn) error
		ca     string
	}{
		"another name":    {secured(config, nil), ca},
		"another signer":  {secured(config, nil), otherCA},
		"no TLS":          {steady, ca},
		"hanging up":      {func(conn *net.TCPConn) error { return conn.Close() }, ca},
		"closed at hello": {silent, ca},
	} {
		t.Run(name, func(t *testing.T) {
			h := serve(t, c.behave)
			flags := keeping(h.addr)
			flags.ConnectTimeout = 200 * time.Millisecond
			link, _ := securely(t, flags, c.ca)
			expect(t, link.Exchange(t.Context(), callFor(t, paymentID)), want{corelink.SentNone, corelink.ErrConnect, 0})
		})
	}
}

// breaking takes so many bytes more, once it is armed, and then fails.
type breaking struct {
	net.Conn
	armed bool
	takes int
}

var errBroken = errors.New("broken")

func (c *breaking) Write(b []byte) (int, error) {
	if !c.armed {
		return c.Conn.Write(b)
	}
	n, err := c.Conn.Write(b[:min(c.takes, len(b))])
	return n, errors.Join(err, errBroken)
}

// TLS says that nothing was written when a part of a record was.
func TestTLS_PartOfARecordIsSomeOfTheRequest(t *testing.T) {
	for takes, sent := range map[int]corelink.Sent{0: corelink.SentNone, 1: corelink.SentSome, 60: corelink.SentSome} {
		config, ca := authority(t, "core.test")
		h := serve(t, secured(config, nil))
		pool := x509.NewCertPool()
		pemBytes, err := os.ReadFile(ca)
		if err != nil || !pool.AppendCertsFromPEM(pemBytes) {
			t.Fatal(err)
		}
		var conn *breaking
		dial := corelink.OverTLS(func(ctx context.Context, network, address string) (net.Conn, error) {
			raw, err := (&net.Dialer{}).DialContext(ctx, network, address)
			conn = &breaking{Conn: raw, takes: takes}
			return conn, err
		}, &tls.Config{RootCAs: pool, ServerName: "core.test"})
		call := callFor(t, paymentID)
		call.Ready = func() error { conn.armed = true; return nil }
		link := newLink(t, keeping(h.addr), dial)
		expect(t, link.Exchange(t.Context(), call), want{sent, corelink.ErrWrite, 0})
	}
}

func TestFlags_SayWhatIsWrongWithTheCertificates(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{empty, empty + ".missing"} {
		flags := customary("127.0.0.1:9099")
		flags.CoreTLS, flags.CoreTLSCA = true, file
		if err := flags.Validate(); err == nil || !strings.HasPrefix(err.Error(), "--core-tls-ca: ") {
			t.Errorf("%s: error %v of Validate", file, err)
		}
		if _, err := flags.Dialer(); err == nil || !strings.HasPrefix(err.Error(), "--core-tls-ca: ") {
			t.Errorf("%s: error %v of Dialer", file, err)
		}
	}
}

func TestFlags_Exposed(t *testing.T) {
	for addr, isExposed := range map[string]bool{
		"127.0.0.1:9099": false, "127.9.9.9:1": false, "[::1]:1": false, "localhost:1": false, "[::ffff:127.0.0.1]:1": false,
		"10.0.0.1:9099": true, "core:9099": true, "[2001:db8::1]:1": true, "localhost.example:1": true,
	} {
		flags := corelink.Flags{CoreAddr: []string{"127.0.0.1:9099", addr}}
		if got := flags.Exposed(); (got != "") != isExposed || isExposed && got != addr {
			t.Errorf("%s: exposed %q", addr, got)
		}
		flags.CoreTLS = true
		if flags.Exposed() != "" {
			t.Errorf("%s: exposed over TLS", addr)
		}
	}
}
