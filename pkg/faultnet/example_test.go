package faultnet_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/gwanmun/gwanmun/pkg/faultnet"
)

// A client whose requests of 52 bytes are late now and then, and whose answers
// of 61 bytes get lost. The seed replays all of it.
func ExampleWrap() {
	const seed = 7
	client, server := net.Pipe()
	conn := faultnet.Wrap(client,
		faultnet.Direction{Segment: 52, Fates: faultnet.Odds{
			Delay: 0.5, MaxDelay: time.Millisecond,
		}.Fates(rand.NewPCG(seed, 0))},
		faultnet.Direction{Segment: 61, Fates: faultnet.Odds{
			Drop: 0.2, Reset: 0.1,
		}.Fates(rand.NewPCG(seed, 1))},
	)
	go func() { // a server that is content with what it gets
		defer func() { _ = server.Close() }()
		for request := make([]byte, 52); ; {
			if _, err := io.ReadFull(server, request); err != nil {
				return
			}
			if _, err := server.Write(make([]byte, 61)); err != nil {
				return
			}
		}
	}()
	if _, err := conn.Write(make([]byte, 52)); err != nil {
		fmt.Println(err)
	}
	n, err := io.ReadFull(conn, make([]byte, 61))
	fmt.Println(n, err)
	_ = conn.Close()
	<-conn.Done()
	// Output: 61 <nil>
}

// The second answer never comes whole, whatever else happens.
func ExampleScript() {
	client, server := net.Pipe()
	conn := faultnet.Wrap(client, faultnet.Direction{}, faultnet.Direction{
		Segment: 4,
		Fates:   faultnet.Script(faultnet.Fate{}, faultnet.Fate{End: faultnet.Truncate, At: 3}),
	})
	go func() {
		_, _ = server.Write([]byte("one.two.six."))
	}()
	all, err := io.ReadAll(conn)
	fmt.Println(string(all), err)
	_ = conn.Close()
	<-conn.Done()
	_ = server.Close()
	// Output: one.two <nil>
}
