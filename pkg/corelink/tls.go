package corelink

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"syscall"
)

// Dialer returns what opens connections to the core as the flags say: over TCP,
// or over TLS on it. It reads the certificates.
func (f *Flags) Dialer() (Dialer, error) {
	plain := &net.Dialer{KeepAlive: keepAlive}
	if !f.CoreTLS {
		return plain.DialContext, nil
	}
	authorities, err := f.authorities()
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: f.CoreTLSName, RootCAs: authorities}
	return overTLS(plain.DialContext, config), nil
}

// authorities are who may sign the core's certificate; nil for those whom this
// machine trusts.
func (f *Flags) authorities() (*x509.CertPool, error) {
	if f.CoreTLSCA == "" {
		return nil, nil //nolint:nilnil // crypto/tls takes it so
	}
	pem, err := os.ReadFile(f.CoreTLSCA)
	if err != nil {
		return nil, fmt.Errorf("--core-tls-ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("--core-tls-ca: the file holds no certificate in PEM")
	}
	return pool, nil
}

// Exposed is the first address of the core that is not this machine and to which
// telegrams go in the clear; empty if there is none.
func (f *Flags) Exposed() string {
	if f.CoreTLS {
		return ""
	}
	for _, addr := range f.CoreAddr {
		host, _, err := net.SplitHostPort(addr)
		ip, notIP := netip.ParseAddr(host)
		if err != nil || host != "localhost" && (notIP != nil || !ip.Unmap().IsLoopback()) {
			return addr
		}
	}
	return ""
}

// TellExposed warns of telegrams that go to another machine in the clear.
func TellExposed(ctx context.Context, logger *slog.Logger, ways ...Flags) {
	for _, flags := range ways {
		if addr := flags.Exposed(); addr != "" {
			logger.WarnContext(ctx, "telegrams leave this machine in the clear: --core-tls is off", "core_addr", addr)
		}
	}
}

// overTLS is a Dialer whose connections have made the handshake of TLS, within
// the time that dialing may take.
func overTLS(dial Dialer, config *tls.Config) Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		config := config
		if config.ServerName == "" {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				return nil, fmt.Errorf("name the core of %s: %w", address, err)
			}
			config = config.Clone()
			config.ServerName = host
		}
		raw, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		wire := &recordConn{Conn: raw}
		conn := &tlsConn{Conn: tls.Client(wire, config), wire: wire}
		if err := conn.HandshakeContext(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("handshake with the core: %w", err), raw.Close())
		}
		return conn, nil
	}
}

// tlsConn is a connection over TLS of which the pool can say as much as of one
// over TCP: whether a byte left, and whether one waits.
type tlsConn struct {
	*tls.Conn
	wire *recordConn
	// abrupt is set when nothing of it is to be of use to anyone any more.
	abrupt bool
}

// Write is the one of TLS, which says that nothing was written when a part of a
// record was: then it says that one byte was.
func (c *tlsConn) Write(b []byte) (int, error) {
	before := c.wire.written
	n, err := c.Conn.Write(b)
	if err != nil && n == 0 && c.wire.written > before {
		n = 1
	}
	return n, err
}

// SetLinger is that of the connection below, where it has one.
func (c *tlsConn) SetLinger(sec int) error {
	c.abrupt = sec == 0
	if below, ok := c.wire.Conn.(interface{ SetLinger(sec int) error }); ok {
		return below.SetLinger(sec)
	}
	return nil
}

// Close says goodbye, unless the connection is to end abruptly: what waits to be
// taken by the core would hold it up.
func (c *tlsConn) Close() error {
	if c.abrupt {
		return c.wire.Close()
	}
	return c.Conn.Close()
}

var errNoDescriptor = errors.New("no descriptor below TLS")

// SyscallConn is that of the connection below. Between exchanges, TLS keeps no
// bytes back: it was handed no more than the record that it asked for.
func (c *tlsConn) SyscallConn() (syscall.RawConn, error) {
	if below, ok := c.wire.Conn.(syscall.Conn); ok {
		return below.SyscallConn()
	}
	return nil, errNoDescriptor
}

// recordHeader is the length of the header of a TLS record; the length of what
// follows stands in its last two bytes.
const recordHeader = 5

// recordConn is what TLS reads from and writes to. It hands out one record at a
// time, so that what came behind it stays in the kernel, where the look before
// the next exchange sees it; and it counts what left.
type recordConn struct {
	net.Conn
	header [recordHeader]byte
	// have is how much of the header was read, left how much of the body was not.
	have, left int
	written    int64
}

// Read reads no further than to the end of a header or of a record.
func (c *recordConn) Read(b []byte) (int, error) {
	if c.left > 0 {
		n, err := c.Conn.Read(b[:min(len(b), c.left)])
		c.left -= n
		return n, err
	}
	n, err := c.Conn.Read(b[:min(len(b), recordHeader-c.have)])
	c.have += copy(c.header[c.have:], b[:n])
	if c.have == recordHeader {
		c.have, c.left = 0, int(binary.BigEndian.Uint16(c.header[recordHeader-2:]))
	}
	return n, err
}

// Write counts.
func (c *recordConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.written += int64(n)
	return n, err
}
