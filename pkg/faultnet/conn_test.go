package faultnet

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/nettest"
)

// A Conn without faults is a net.Conn, whatever it stands before.
func TestConn_ConformsToNetConn(t *testing.T) {
	makers := map[string]func() (net.Conn, net.Conn){
		"pipe": net.Pipe,
		"tcp": func() (net.Conn, net.Conn) {
			near, far := tcpPair(t)
			// The suite fills what the kernel buffers; let that be little.
			for _, conn := range []*net.TCPConn{near, far} {
				_, _ = conn.SetReadBuffer(8<<10), conn.SetWriteBuffer(8<<10)
			}
			return near, far
		},
	}
	for name, make := range makers {
		t.Run(name, func(t *testing.T) {
			nettest.TestConn(t, func() (net.Conn, net.Conn, func(), error) {
				near, far := make()
				c1, c2 := Wrap(near, Direction{}, Direction{}), Wrap(far, Direction{Segment: 7}, Direction{Segment: 9})
				stop := func() {
					_, _ = c1.Close(), c2.Close() // some tests have closed them
					<-c1.Done()
					<-c2.Done()
				}
				return c1, c2, stop, nil
			})
		})
	}
}

func TestWrite_ReturnsAtOnceWhatArrivesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pipe(t, Direction{Fates: Script(Fate{Delay: time.Hour})}, Direction{})
		begin := time.Now()
		write(t, c, text(52))
		if took := time.Since(begin); took != 0 {
			t.Errorf("the write took %v", took)
		}
		readFull(t, peer, text(52))
		if took := time.Since(begin); took != time.Hour {
			t.Errorf("it arrived after %v", took)
		}
	})
}

// The request of a caller who gave up is under way, and arrives.
func TestClose_DoesNotTakeBackWhatIsUnderWay(t *testing.T) {
	for name, hard := range map[string]bool{"in order": false, "by reset": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, peer := pipe(t, Direction{Fates: Script(Fate{Delay: time.Hour})}, Direction{})
				begin := time.Now()
				write(t, c, text(52))
				if hard {
					if err := c.SetLinger(0); err != nil {
						t.Error(err)
					}
				}
				if err := c.Close(); err != nil || time.Since(begin) != 0 {
					t.Errorf("close: %v after %v", err, time.Since(begin))
				}
				got, err := trace(peer)
				if contents(got) != string(text(52)) || got[0].at != time.Hour || !isEnd(err) {
					t.Errorf("arrived: %v and %v", got, err)
				}
			})
		})
	}
}

func TestClose_IsByResetAfterSetLinger(t *testing.T) {
	for _, tt := range []struct {
		sec   int
		reset bool
	}{{0, true}, {-1, false}} {
		c, peer := tcp(t, Direction{}, Direction{})
		if err := c.SetLinger(tt.sec); err != nil {
			t.Error(err)
		}
		write(t, c, text(5))
		readFull(t, peer, text(5))
		_ = c.Close()
		if _, err := trace(peer); errors.Is(err, syscall.ECONNRESET) != tt.reset {
			t.Errorf("linger %d: the peer read %v", tt.sec, err)
		}
	}
}

func TestClose_WaitsForAPeerThatDoesNotReadNoLongerThanTheLimit(t *testing.T) {
	for name, first := range map[string]Fate{"writing already": {}, "not due yet": {Delay: time.Minute}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, _ := pipe(t, Direction{Fates: Script(first)}, Direction{})
				write(t, c, text(10))
				write(t, c, text(10))
				synctest.Wait()
				begin := time.Now()
				_ = c.Close()
				<-c.Done()
				if took := time.Since(begin) - first.Delay; took != FlushLimit {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestClose_EndsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := Fate{Delay: time.Hour}
		c, peer := pipe(t, Direction{Fates: Script(late)}, Direction{Fates: Script(late)})
		write(t, peer, text(10))
		write(t, c, text(BufferSize))
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, net.ErrClosed) {
				t.Errorf("read %d bytes and %v", n, err)
			}
		})
		waiting.Go(func() {
			if n, err := c.Write(text(1)); n > 0 || !errors.Is(err, net.ErrClosed) {
				t.Errorf("wrote %d bytes and %v", n, err)
			}
		})
		synctest.Wait()
		_ = c.Close()
		waiting.Wait()
		for what, err := range map[string]error{
			"Close": c.Close(), "SetDeadline": c.SetDeadline(time.Time{}), "SetLinger": c.SetLinger(0),
		} {
			if !errors.Is(err, net.ErrClosed) {
				t.Errorf("%s after Close: %v", what, err)
			}
		}
	})
}

func TestReadDeadline_PassesWhileBytesAreLateAndLeavesThemThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pipe(t, Direction{}, Direction{Fates: Script(Fate{Delay: time.Minute})})
		write(t, peer, text(61))
		begin := time.Now()
		if err := c.SetReadDeadline(begin.Add(3 * time.Second)); err != nil {
			t.Fatal(err)
		}
		n, err := c.Read(make([]byte, 61))
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != 3*time.Second {
			t.Errorf("read %d bytes and %v after %v", n, err, time.Since(begin))
		}
		if err := c.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		readFull(t, c, text(61))
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("they came after %v", took)
		}
	})
}

func TestReadDeadline_WinsOverBytesThatAreThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pipe(t, Direction{}, Direction{Fates: Script(Fate{}, Fate{Delay: time.Second})})
		write(t, peer, text(5))
		write(t, peer, text(5))
		synctest.Wait()
		for _, deadline := range []time.Duration{-time.Hour, 0} {
			_ = c.SetReadDeadline(time.Now().Add(deadline))
			if n, err := c.Read(make([]byte, 5)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("deadline %v: read %d bytes and %v", deadline, n, err)
			}
		}
		_ = c.SetReadDeadline(time.Now().Add(time.Second)) // the moment of the second five
		readFull(t, c, text(5))
		if n, err := c.Read(make([]byte, 5)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("at the moment of the deadline: read %d bytes and %v", n, err)
		}
	})
}

func TestDeadline_SetWhileSomeoneWaitsEndsTheWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := pipe(t, Direction{}, Direction{})
		write(t, c, text(BufferSize)) // the peer does not read: no room is left
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if n, err := c.Read(make([]byte, 1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read %d bytes and %v", n, err)
			}
		})
		waiting.Go(func() {
			if n, err := c.Write(text(1)); n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("wrote %d bytes and %v", n, err)
			}
		})
		synctest.Wait()
		_ = c.SetDeadline(time.Unix(1, 0))
		waiting.Wait()
	})
}

func TestWriteDeadline_SaysHowManyBytesAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pipe(t, Direction{}, Direction{})
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := c.Write(text(BufferSize + 100))
		if n != BufferSize || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("wrote %d bytes and %v", n, err)
		}
		_ = c.Close()
		if got, err := io.ReadAll(peer); len(got) != BufferSize || err != nil {
			t.Errorf("%d bytes arrived, and %v", len(got), err)
		}
	})
}

// A Write that its deadline cut short is a segment that never comes whole.
func TestWriteDeadline_EndsTheSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pipe(t, Direction{Fates: Script(Fate{Duplicate: true}, Fate{})}, Direction{})
		_ = c.SetWriteDeadline(time.Now().Add(time.Second))
		_, _ = c.Write(text(BufferSize + 1))
		_ = c.SetWriteDeadline(time.Time{})
		var writing sync.WaitGroup
		writing.Go(func() {
			write(t, c, []byte("next"))
			_ = c.Close()
		})
		if got, _ := io.ReadAll(peer); string(got) != string(text(BufferSize))+"next" {
			t.Errorf("%d bytes arrived", len(got))
		}
		writing.Wait()
	})
}

func TestBuffer_HoldsUpAPeerWhenNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pipe(t, Direction{}, Direction{})
		_ = peer.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := peer.Write(text(3 * BufferSize))
		// What one read beneath has taken waits too.
		if n < BufferSize || n > 2*BufferSize || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the peer wrote %d bytes and %v", n, err)
		}
		_ = peer.Close()
		if got, err := io.ReadAll(c); len(got) != n || err != nil {
			t.Errorf("read %d bytes and %v", len(got), err)
		}
	})
}

func TestClose_EndsThoughMoreHasArrivedThanFits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pipe(t, Direction{}, Direction{})
		var writing sync.WaitGroup
		writing.Go(func() { _, _ = peer.Write(text(3 * BufferSize)) })
		synctest.Wait()
		_ = c.Close()
		<-c.Done()
		writing.Wait()
	})
}

func TestWrite_ToAPeerThatIsGoneFailsAfterItIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, peer := pipe(t, Direction{}, Direction{})
		_ = peer.Close()
		write(t, c, text(1)) // nobody knows yet
		synctest.Wait()
		if n, err := c.Write(text(1)); n > 0 || !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("wrote %d bytes and %v", n, err)
		}
	})
}

func TestCloseWrite_EndsOneDirectionBehindWhatIsUnderWay(t *testing.T) {
	c, peer := tcp(t, Direction{Fates: Script(Fate{Delay: 5 * time.Millisecond})}, Direction{})
	write(t, c, text(10))
	if err := c.CloseWrite(); err != nil {
		t.Error(err)
	}
	if _, err := c.Write(text(1)); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("writing: %v", err)
	}
	got, err := trace(peer)
	if contents(got) != string(text(10)) || !errors.Is(err, io.EOF) {
		t.Errorf("the peer read %q and %v", contents(got), err)
	}
	write(t, peer, []byte("still here"))
	readFull(t, c, []byte("still here"))
}

func TestCloseWrite_OfAPipeIsNotSupported(t *testing.T) {
	c, peer := pipe(t, Direction{}, Direction{})
	if err := c.CloseWrite(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
	write(t, c, text(3))
	readFull(t, peer, text(3))
}

func TestConn_ShowsTheAddressesBeneath(t *testing.T) {
	c, peer := tcp(t, Direction{}, Direction{})
	if c.LocalAddr().String() != peer.RemoteAddr().String() || c.RemoteAddr().String() != peer.LocalAddr().String() {
		t.Errorf("%v to %v", c.LocalAddr(), c.RemoteAddr())
	}
}
