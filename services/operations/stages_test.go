package operations

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/telemetry/otlptest"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// stages are what happens between the lines of the page.
var stages = map[string]func(t *testing.T, h *house){
	"a day with a bit of everything": theDay,
	"the core answers inquiries":     clearFaults,
	"the run has ended":              awaitRun,
	"another ID is used":             useAnotherID,
	"the traces have arrived":        awaitTraces,
	"a circuit opens":                openCircuit,
	"with keys and certificates":     guard,
	"a client asks too often":        askTooOften,
}

// Methods that the stages call.
const (
	createPayment = "gwanmun.payment.v1.PaymentService/CreatePayment"
	getBalance    = "gwanmun.payment.v1.AccountService/GetBalance"
	setFault      = "gwanmun.simulator.v1.SimulatorService/SetFault"
	clearAll      = "gwanmun.simulator.v1.SimulatorService/ClearFaults"
)

var (
	seoul   = time.FixedZone("Asia/Seoul", 9*60*60)
	idOf    = regexp.MustCompile(`GWMNU[0-9]{17}`)
	traceOf = regexp.MustCompile(`"traceId": "([0-9a-f]{32})"`)
)

// withinADay is the time now, for a test that is about one business day.
func withinADay(t testing.TB) time.Time {
	t.Helper()
	now := time.Now().In(seoul)
	if now.Add(2*time.Minute).Day() != now.Day() {
		t.Skip("SKIPPED: a business day ends within two minutes, and this is about one")
	}
	return now
}

// theDay starts the three and has one payment that is done, one whose answer
// comes too late and about which the core says nothing, one whose ID the core
// knows already, and one that only the core knows.
func theDay(t *testing.T, h *house) {
	begin := withinADay(t)
	h.names.set(t, "from", begin.UTC().Add(-time.Minute).Truncate(time.Minute).Format(time.RFC3339))
	h.names.set(t, "to", begin.UTC().Add(time.Hour).Truncate(time.Minute).Format(time.RFC3339))
	h.names.set(t, "day", begin.In(seoul).Format(time.DateOnly))

	traced := []string{"--otlp-endpoint=" + h.collector.Addr(), "--trace-ratio=1"}
	h.core = start(t, h.dir, "corebank", "corebank",
		append(traced, "--frame-addr=127.0.0.1:0", "--listing-addr=127.0.0.1:0", "--book-dsn=sqlite:var/book.db")...)
	bank := h.know(t, h.core, "grpc", "127.0.0.1:9091")
	h.payment = h.startService(t, "payment", traced, "--read-timeout=2s", "--circuit-mode=consecutive", "--circuit-open-wait=1h")
	h.know(t, h.payment, "grpc", "127.0.0.1:9090")
	h.know(t, h.payment, "admin", "127.0.0.1:8090")

	h.call(t, bank, setFault, `{"fault":{"mti":"0400","action":"FAULT_ACTION_RESPONSE_CODE","response_code":"0099"}}`)
	h.knowID(t)
	for i, name := range []string{"done", "late", "used"} {
		number := map[string]string{"done": "12345678901234", "late": "99999999999999", "used": usedAccount}[name]
		out := h.pay(t, 1001+i, number)
		h.names.set(t, name, idOf.FindString(out))
		if m := traceOf.FindStringSubmatch(out); m != nil && name == "done" {
			h.names.set(t, "trace", m[1])
		}
	}
	h.payPastTheLedger(t, begin)
	h.reconciler = h.startService(t, "reconciler", traced, "--sweep-interval=10m", "--max-attempts=1")
	h.know(t, h.reconciler, "grpc", "127.0.0.1:9092")
	metrics := "http://" + h.know(t, h.reconciler, "admin", "127.0.0.1:8092") + "/metrics"
	await(t, "the reconciler has counted what is unknown", func() bool {
		_, page := fetch(t, metrics)
		return strings.Contains(page, "\ngwanmun_unknown_transactions 2\n")
	})
}

// usedAccount is the account of payments whose ID the core says it knows.
const usedAccount = "23456789012345"

// knowID has the core say of its payments that it knows their IDs, when it has
// made them.
func (h *house) knowID(t testing.TB) {
	t.Helper()
	h.call(t, h.core.address(t, "grpc"), setFault, `{"fault":{"mti":"0100","account_number":"`+usedAccount+`",`+
		`"when":"FAULT_POINT_AFTER_EXECUTION","action":"FAULT_ACTION_RESPONSE_CODE","response_code":"0094"}}`)
}

// pay pays an order, and returns what the caller is told.
func (h *house) pay(t testing.TB, order int, number string) string {
	t.Helper()
	out := h.call(t, h.payment.address(t, "grpc"), createPayment, fmt.Sprintf(
		`{"idempotency_key":"order-%d","order_id":"order-%d","account_number":"%s","amount":50000}`, order, order, number,
	), fmt.Sprintf("x-correlation-id: shop-%d", order))
	if !idOf.MatchString(out) {
		t.Fatalf("order %d has no payment: %s", order, out)
	}
	return out
}

// startService starts a service on the ledger and the core.
func (h *house) startService(t testing.TB, name string, more []string, flags ...string) *process {
	t.Helper()
	return start(t, h.dir, name, name, append(append(flags, more...), h.reach(t)...)...)
}

// reach is the flags of whoever uses the ledger and the core.
func (h *house) reach(t testing.TB) []string {
	t.Helper()
	return []string{
		"--ledger-dsn=sqlite:var/ledger.db",
		"--core-addr=" + h.core.address(t, "frame"), "--listing-addr=" + h.core.address(t, "listing"),
	}
}

// payPastTheLedger makes a payment at the core that no ledger knows of, as
// somebody else with access to the core would.
func (h *house) payPastTheLedger(t testing.TB, at time.Time) {
	t.Helper()
	number, err := account.Parse("45678901234567")
	if err != nil {
		t.Fatal(err)
	}
	id := tranid.New(tranid.DateOf(at), 42)
	h.names.set(t, "extra", string(id))
	request, err := telegram.PaymentRequest{TranID: id, Account: number, Amount: 70_000}.AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	conn := dial(t, h.core.address(t, "frame"))
	if _, err := conn.Write(request); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 61)); err != nil {
		t.Fatal(err)
	}
}

func clearFaults(t *testing.T, h *house) {
	h.call(t, h.core.address(t, "grpc"), clearAll, `{}`)
}

// awaitRun waits for the end of the run that the page has begun.
func awaitRun(t *testing.T, h *house) {
	metrics := "http://" + h.reconciler.address(t, "admin") + "/metrics"
	await(t, "the run has ended and is counted", func() bool {
		_, page := fetch(t, metrics)
		return strings.Contains(page, `gwanmun_settlement_runs_total{state="SUCCEEDED"} 1`) &&
			strings.Contains(page, `gwanmun_settlement_discrepancies{class="CORE_ONLY"} 1`)
	})
}

func useAnotherID(t *testing.T, h *house) {
	h.knowID(t)
	h.pay(t, 1004, usedAccount)
}

// awaitTraces waits until the collector has what the page says it has: the call's
// trace and the core's.
func awaitTraces(t *testing.T, h *house) {
	sum := sha256.Sum256([]byte(h.names.run["done"]))
	for service, trace := range map[string]string{"payment": h.names.run["trace"], "corebank": hex.EncodeToString(sum[:16])} {
		h.collector.Wait(t, patience, "the trace of "+service, func(s *otlptest.Span) bool {
			return s.Service == service && s.TraceID == trace
		})
	}
}

// openCircuit has the core close three connections in a row without an answer.
func openCircuit(t *testing.T, h *house) {
	h.call(t, h.payment.address(t, "grpc"), getBalance, `{"account_number":"88888888888888"}`)
}

// guard starts a payment service that wants keys and speaks TLS, with the files
// that the page's lines have made.
func guard(t *testing.T, h *house) {
	p := start(t, h.dir, "guarded", "payment", append(h.reach(t),
		"--clients-file=var/clients.json", "--tls-cert=var/tls.crt", "--tls-key=var/tls.key", "--rate-limit=1", "--rate-burst=20")...)
	h.know(t, p, "grpc", "127.0.0.1:9190")
	h.know(t, p, "admin", "127.0.0.1:8190")
}

// askTooOften goes on until a call is refused.
func askTooOften(t *testing.T, h *house) {
	await(t, "a call is refused", func() bool {
		out := h.execute(t, `bin/grpcurl -cacert var/tls.crt -H "x-api-key: $(cat var/shop.key)" -protoset var/payment.binpb -d '{"idempotency_key":"none"}' `+
			`127.0.0.1:9190 gwanmun.payment.v1.PaymentService/GetPayment`)
		return strings.Contains(out, "ResourceExhausted")
	})
}
