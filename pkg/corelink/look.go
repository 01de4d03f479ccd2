package corelink

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// errStale says why a connection is not used again.
var errStale = errors.New("the connection has a byte or an end waiting")

// look reports whether a connection that should be silent is: a byte that waits
// was meant for nobody, and an end means that the core hung up. It does not
// wait.
func look(conn net.Conn) error {
	if sc, ok := conn.(syscall.Conn); ok {
		return peek(sc)
	}
	return glance(conn)
}

// peek asks the kernel, and takes nothing.
func peek(sc syscall.Conn) error {
	raw, err := sc.SyscallConn()
	if err != nil {
		return errStale
	}
	silent := false
	var buf [1]byte
	err = raw.Read(func(fd uintptr) bool {
		_, _, err := syscall.Recvfrom(int(fd), buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK)
		return true
	})
	if err != nil || !silent {
		return errStale
	}
	return nil
}

// glance reads with a deadline that is all but past, for connections without a
// kernel behind them.
func glance(conn net.Conn) error {
	if err := conn.SetReadDeadline(time.Now().Add(time.Nanosecond)); err != nil {
		return errStale
	}
	var buf [1]byte
	if n, err := conn.Read(buf[:]); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return errStale
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return errStale
	}
	return nil
}
