package operations

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// stages are what happens between the lines of the page.
var stages = map[string]func(t *testing.T, h *house){
	"a day with a bit of everything": theDay,
	"the core answers inquiries":     clearFaults,
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

// theDay starts the three and has one payment that is done, one whose answer
// comes too late and about which the core says nothing, one whose ID the core
// knows already, and one that only the core knows.
func theDay(t *testing.T, h *house) {
	begin := time.Now()
	if midnight := begin.In(seoul).Add(2 * time.Minute); midnight.Day() != begin.In(seoul).Day() {
		t.Skip("SKIPPED: a business day ends within two minutes, and the page is about one")
	}
	h.names.set(t, "from", begin.UTC().Add(-time.Minute).Truncate(time.Minute).Format(time.RFC3339))
	h.names.set(t, "to", begin.UTC().Add(time.Hour).Truncate(time.Minute).Format(time.RFC3339))
	h.names.set(t, "day", begin.In(seoul).Format(time.DateOnly))

	traced := []string{"--otlp-endpoint=" + h.collector.Addr(), "--trace-ratio=1"}
	h.core = start(t, h.dir, "corebank", "corebank",
		append(traced, "--frame-addr=127.0.0.1:0", "--listing-addr=127.0.0.1:0", "--book-dsn=sqlite:var/book.db")...)
	bank := h.know(t, h.core, "grpc", "127.0.0.1:9091")
	h.payment = h.startService(t, "payment", traced, "--read-timeout=2s", "--circuit-mode=consecutive", "--circuit-open-wait=1h")
	payments := h.know(t, h.payment, "grpc", "127.0.0.1:9090")
	h.know(t, h.payment, "admin", "127.0.0.1:8090")

	h.call(t, bank, setFault, `{"fault":{"mti":"0400","action":"FAULT_ACTION_RESPONSE_CODE","response_code":"0099"}}`)
	h.call(t, bank, setFault, `{"fault":{"mti":"0100","account_number":"23456789012345","when":"FAULT_POINT_AFTER_EXECUTION",`+
		`"action":"FAULT_ACTION_RESPONSE_CODE","response_code":"0094"}}`)
	for i, name := range []string{"done", "late", "used"} {
		number := map[string]string{"done": "12345678901234", "late": "99999999999999", "used": "23456789012345"}[name]
		order := fmt.Sprintf("order-100%d", i+1)
		out := h.call(t, payments, createPayment,
			`{"idempotency_key":"`+order+`","order_id":"`+order+`","account_number":"`+number+`","amount":50000}`,
			fmt.Sprintf("x-correlation-id: shop-100%d", i+1))
		id := idOf.FindString(out)
		if id == "" {
			t.Fatalf("%s is no payment: %s", order, out)
		}
		h.names.set(t, name, id)
		if m := traceOf.FindStringSubmatch(out); m != nil && name == "done" {
			h.names.set(t, "trace", m[1])
		}
	}
	h.payPastTheLedger(t, begin)
	h.reconciler = h.startService(t, "reconciler", traced, "--sweep-interval=10m")
	h.know(t, h.reconciler, "grpc", "127.0.0.1:9092")
	metrics := "http://" + h.know(t, h.reconciler, "admin", "127.0.0.1:8092") + "/metrics"
	await(t, "the reconciler has counted what is unknown", func() bool {
		_, page := fetch(t, metrics)
		return strings.Contains(page, "\ngwanmun_unknown_transactions 2\n")
	})
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
