package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// peerArg makes this program the core.
const peerArg = "peer"

// idAt is where the transaction ID stands, in a request as in an answer.
const idAt, idEnd = 4, 26

// startPeer starts the core as a process of its own, and returns its address and
// what stops it.
func startPeer(ctx context.Context) (addr string, stop func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, peerArg)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() error { return errors.Join(in.Close(), cmd.Wait()) }
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("read its address: %w", err), stop())
	}
	return strings.TrimSpace(line), stop, nil
}

// servePeer is the core: it says where it listens, and ends when in does.
func servePeer(ctx context.Context, in io.Reader, out io.Writer) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if _, err := fmt.Fprintln(out, listener.Addr()); err != nil {
		return fmt.Errorf("say the address: %w", err)
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(conn)
		}
	}()
	_, err = io.Copy(io.Discard, in)
	return errors.Join(err, listener.Close())
}

// answer answers each request at once, until the connection ends.
func answer(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	request := make([]byte, telegram.RequestLength)
	reply := []byte(strings.Repeat("0", telegram.AnswerLength))
	for {
		if _, err := io.ReadFull(conn, request); err != nil {
			return
		}
		copy(reply[idAt:idEnd], request[idAt:idEnd])
		if _, err := conn.Write(reply); err != nil {
			return
		}
	}
}
