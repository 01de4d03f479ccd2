package faultnet

import (
	"io"
	"net"
	"testing"
)

// BenchmarkExchange measures one exchange of 52 and 61 bytes over a pipe.
func BenchmarkExchange(b *testing.B) {
	for name, wrapped := range map[string]bool{"bare": false, "wrapped": true} {
		b.Run(name, func(b *testing.B) {
			near, far := net.Pipe()
			if wrapped {
				near = wrap(b, near, far, Direction{Segment: 52}, Direction{Segment: 61})
			}
			go func() {
				for request, answer := make([]byte, 52), make([]byte, 61); ; {
					if _, err := io.ReadFull(far, request); err != nil {
						return
					}
					if _, err := far.Write(answer); err != nil {
						return
					}
				}
			}()
			request, answer := make([]byte, 52), make([]byte, 61)
			for b.Loop() {
				if _, err := near.Write(request); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(near, answer); err != nil {
					b.Fatal(err)
				}
			}
			_ = near.Close()
		})
	}
}
