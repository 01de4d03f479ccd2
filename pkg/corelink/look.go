package corelink

import (
	"errors"
	"net"
	"os"
	"syscall"
	"time"
)

// A silence reports whether a connection that should be silent is: a byte that
// waits was meant for nobody, and an end means that the core hung up. It is not
// for use by two goroutines at once.
type silence func() bool

// listen returns the silence of a connection. A connection that offers its
// descriptor must keep no bytes back in itself.
func listen(conn net.Conn) silence {
	if sc, ok := conn.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			return peek(raw)
		}
	}
	return func() bool { return glance(conn) }
}

// peek asks the kernel, without waiting, and takes nothing. It obeys no
// deadline, so one that is left over does not matter. What it needs is made
// once, since it is asked before every exchange.
func peek(raw syscall.RawConn) silence {
	var buf [1]byte
	silent := false
	ask := func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		silent = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK)
	}
	return func() bool {
		silent = false
		return raw.Control(ask) == nil && silent
	}
}

// glanceTime is how long a connection without a kernel behind it is read. A
// deadline that is past already would hide a byte that waits.
const glanceTime = time.Millisecond

// glance reads for a moment. It is for the pipes of tests: a socket is asked by
// peek.
func glance(conn net.Conn) bool {
	if conn.SetReadDeadline(time.Now().Add(glanceTime)) != nil {
		return false
	}
	var buf [1]byte
	n, err := conn.Read(buf[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
}
