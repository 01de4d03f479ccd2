package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/corebank/simulator"
)

// mainEnv makes the test binary the command itself.
const mainEnv = "GWANMUN_TEST_COREBANK"

func TestMain(m *testing.M) {
	if os.Getenv(mainEnv) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

func command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), mainEnv+"=1")
	return cmd
}

// core is a running corebank.
type core struct {
	t   *testing.T
	cmd *exec.Cmd
	// addresses are where it listens, by name.
	addresses map[string]string

	reading sync.WaitGroup
	log     bytes.Buffer // read it after exit
}

// start starts a corebank on free ports and waits until it listens.
func start(t *testing.T, book string, args ...string) *core {
	t.Helper()
	c := &core{t: t, addresses: map[string]string{}}
	c.cmd = command(context.Background(), append([]string{
		"--grpc-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--frame-addr=127.0.0.1:0",
		"--listing-addr=127.0.0.1:0", "--book-dsn=sqlite:" + book,
	}, args...)...)
	stderr, err := c.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	lines := bufio.NewScanner(stderr)
	for len(c.addresses) < 4 {
		if !lines.Scan() {
			_ = c.cmd.Wait()
			t.Fatalf("it ended before it listened: %s", &c.log)
		}
		c.log.Write(lines.Bytes())
		var line struct{ Msg, Name, Address string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			c.addresses[line.Name] = line.Address
		}
	}
	c.reading.Go(func() {
		for lines.Scan() {
			c.log.Write(append(lines.Bytes(), '\n'))
		}
	})
	return c
}

// exit ends it by a signal and returns its exit code, -1 for a killed one.
func (c *core) exit(s os.Signal) int {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
	c.reading.Wait()
	var exit *exec.ExitError
	if err := c.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		c.t.Fatal(err)
	}
	return c.cmd.ProcessState.ExitCode()
}

func (c *core) dial() net.Conn {
	c.t.Helper()
	conn, err := net.Dial("tcp", c.addresses["frame"])
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// code sends a frame and returns the response code of its answer, and the flag
// of one that has a flag.
func (c *core) code(conn net.Conn, m interface {
	AppendTo(dst []byte) ([]byte, error)
},
) string {
	c.t.Helper()
	send(c.t, conn, m)
	b := make([]byte, telegram.AnswerLength)
	if _, err := io.ReadFull(conn, b); err != nil {
		c.t.Fatal(err)
	}
	if paid, err := telegram.ParsePaymentAnswer(b); err == nil {
		return paid.ResponseCode
	}
	canceled, err := telegram.ParseCancelAnswer(b)
	if err != nil {
		c.t.Fatalf("%q: %v", b, err)
	}
	return canceled.ResponseCode + " " + canceled.CancelResult
}

func send(t *testing.T, conn net.Conn, m interface {
	AppendTo(dst []byte) ([]byte, error)
},
) {
	t.Helper()
	b, err := m.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(b); err != nil {
		t.Fatal(err)
	}
}

// journal is type, effect and code of all entries of a book that nobody uses.
func journal(t *testing.T, path string) string {
	t.Helper()
	book, err := simulator.OpenSQLite(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = book.Close() }()
	page, err := book.Journal(t.Context(), simulator.Filter{Limit: simulator.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]string, 0, len(page.Entries))
	for _, e := range page.Entries {
		lines = append(lines, e.MTI+" "+e.Effect.String()+" "+e.ResponseCode)
	}
	return strings.Join(lines, ", ")
}

func id(n int64) tranid.ID { return tranid.New(tranid.DateOf(time.Unix(0, 0)), n) }

func pay(t *testing.T, n int64, digits string) telegram.PaymentRequest {
	t.Helper()
	number, err := account.Parse(digits)
	if err != nil {
		t.Fatal(err)
	}
	return telegram.PaymentRequest{TranID: id(n), Account: number, Amount: 1000}
}

func newBook(t *testing.T) string { return filepath.Join(t.TempDir(), "book.db") }

func TestCorebank_ListsThePaymentsThatItDidBeforeAKill(t *testing.T) {
	day := tranid.DateOf(time.Date(2026, 11, 12, 0, 0, 0, 0, tranid.Seoul))
	paid := pay(t, 1, "12345678901234")
	paid.TranID = tranid.New(day, 7)
	book := newBook(t)
	c := start(t, book)
	if code := c.code(c.dial(), paid); code != "0000" {
		t.Fatalf("code %s", code)
	}
	_ = c.exit(os.Kill)

	c = start(t, book)
	conn, err := net.Dial("tcp", c.addresses["listing"])
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	send(t, conn, telegram.BookRequest{SettleDate: day})
	b := make([]byte, telegram.BookAnswerMinLength+telegram.BookRecordLength)
	if _, err := io.ReadFull(conn, b); err != nil {
		t.Fatal(err)
	}
	got, err := telegram.ParseBookAnswer(b)
	if err != nil || len(got.Records) != 1 || got.Records[0].TranID != paid.TranID || got.Records[0].State != "00" {
		t.Errorf("book %+v, %v", got, err)
	}
	if code := c.exit(syscall.SIGTERM); code != 0 {
		t.Errorf("ended with %d while a listing connection was open: %s", code, &c.log)
	}
}

func TestCorebank_KeepsItsBookOverAStopAndAKill(t *testing.T) {
	book := newBook(t)
	c := start(t, book)
	conn := c.dial()
	for _, step := range []struct{ got, want string }{
		{c.code(conn, pay(t, 1, "12345678901234")), "0000"},
		{c.code(conn, telegram.CancelRequest{TranID: id(2)}), "0000 02"},
	} {
		if step.got != step.want {
			t.Errorf("got %s, want %s", step.got, step.want)
		}
	}
	if code := c.exit(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d: %s", code, &c.log)
	}

	c = start(t, book)
	conn = c.dial()
	if got := c.code(conn, pay(t, 1, "12345678901234")); got != "0094" {
		t.Errorf("the used ID: %s", got)
	}
	if got := c.code(conn, pay(t, 3, "12345678901234")); got != "0000" {
		t.Errorf("a new payment: %s", got)
	}
	if code := c.exit(syscall.SIGKILL); code != -1 {
		t.Errorf("exit code %d", code)
	}

	c = start(t, book)
	if got := c.code(c.dial(), pay(t, 2, "12345678901234")); got != "0096" {
		t.Errorf("the fenced ID: %s", got)
	}
	c.exit(syscall.SIGTERM)
	want := "0100 DEBIT 0000, 0420 FENCE 0000, 0100 NONE 0094, 0100 DEBIT 0000, 0100 NONE 0096"
	if got := journal(t, book); got != want {
		t.Errorf("journal: %s\nwant     %s", got, want)
	}
	if strings.Contains(c.log.String(), "12345678901234") {
		t.Errorf("the account is in the log: %s", &c.log)
	}
}

func TestCorebank_DoesNotDoAtShutdownWhatItHolds(t *testing.T) {
	book := newBook(t)
	c := start(t, book, "--late-answer=1h")
	held := c.dial()
	send(t, held, pay(t, 1, "55555555555555"))
	c.code(c.dial(), telegram.CancelRequest{TranID: id(2)})
	if code := c.exit(syscall.SIGTERM); code != 0 {
		t.Errorf("exit code %d: %s", code, &c.log)
	}
	if b, err := io.ReadAll(held); len(b) > 0 {
		t.Errorf("the held payment was answered: %q, %v", b, err)
	}
	if got := journal(t, book); strings.Contains(got, "DEBIT") {
		t.Errorf("journal: %s", got)
	}
	c = start(t, book)
	if got := c.code(c.dial(), pay(t, 1, "12345678901234")); got != "0000" {
		t.Errorf("the ID of the held payment: %s", got)
	}
}

func TestCorebank_HasItsSwitches(t *testing.T) {
	c := start(t, newBook(t), "--core-fences=false", "--dedupe=false")
	conn := c.dial()
	got := make([]string, 0, 6)
	for range 2 {
		got = append(got, c.code(conn, telegram.CancelRequest{TranID: id(1)}), c.code(conn, pay(t, 1, "12345678901234")),
			c.code(conn, pay(t, 1, "12345678901234")))
	}
	if want := "0000 02,0000,0000,0000 01,0000,0000"; strings.Join(got, ",") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

func TestCorebank_EndsWithOneLineWhenItCannotStart(t *testing.T) {
	book := newBook(t)
	start(t, book)
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = busy.Close() }()
	tests := []struct {
		name string
		args []string
		code int
	}{
		{"a DSN of another kind", []string{"--book-dsn=postgres://user:secret@host/db"}, 2},
		{"no DSN", []string{"--book-dsn="}, 2},
		{"an unknown flag", []string{"--no-such-flag"}, 2},
		{"a switch that is no truth value", []string{"--dedupe=perhaps"}, 2},
		{"no lateness", []string{"--late-answer=0s"}, 2},
		{"a book that is in use", []string{"--book-dsn=sqlite:" + book}, 1},
		{"a port that is taken", []string{"--frame-addr=" + busy.Addr().String()}, 1},
		{"a listing port that is taken", []string{"--listing-addr=" + busy.Addr().String()}, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{
				"--grpc-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0", "--frame-addr=127.0.0.1:0", "--listing-addr=127.0.0.1:0",
				"--book-dsn=sqlite:" + newBook(t), "--log-level=error",
			}, tt.args...)
			cmd := command(t.Context(), args...)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != tt.code {
				t.Errorf("ended with %v, want %d", err, tt.code)
			}
			if lines := strings.Count(string(out), "\n"); lines != 1 || strings.Contains(string(out), "secret") {
				t.Errorf("said %d lines: %s", lines, out)
			}
		})
	}
}
