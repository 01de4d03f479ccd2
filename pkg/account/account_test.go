package account_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/account"
)

// full is a number of which every run of digits is telling.
const full = "12345678901234"

func parse(t *testing.T, s string) account.Number {
	t.Helper()
	n, err := account.Parse(s)
	if err != nil {
		t.Fatalf("parse %d characters: %v", len(s), err)
	}
	return n
}

func TestMasked_EveryLengthHidesAtLeastFour(t *testing.T) {
	want := []string{
		1: "****", 2: "****", 3: "****", 4: "****", 5: "****5", 6: "****56", 7: "****67", 8: "****78", 9: "****89",
		10: "****90", 11: "123****8901", 12: "1234****9012", 13: "12345****0123", 14: "123456****1234",
	}
	for length := 1; length <= account.MaxDigits; length++ {
		digits := full[:length]
		got := parse(t, digits).Masked()
		if got != want[length] {
			t.Errorf("%d digits: %s, want %s", length, got, want[length])
		}
		shown := len(strings.ReplaceAll(got, "*", ""))
		if hidden := length - shown; hidden < min(length, 4) {
			t.Errorf("%d digits: %d are hidden", length, hidden)
		}
		padded := parse(t, strings.Repeat("0", account.MaxDigits-length)+digits)
		if padded.Masked() != got {
			t.Errorf("%d digits: %s with leading zeros, %s without", length, padded.Masked(), got)
		}
	}
	if got := parse(t, "00000000000000").Masked(); got != "****" {
		t.Errorf("all zero: %s", got)
	}
	if got := (account.Number{}).Masked(); got != "" {
		t.Errorf("no number: %s", got)
	}
}

// hidden fails the test if text has a run of digits that the mask hides.
func hidden(t *testing.T, how, text string) {
	t.Helper()
	for start := range len(full) - 6 {
		for _, digits := range []string{full[start : start+7], fmt.Sprintf("%x", full[start:start+7])} {
			if strings.Contains(text, digits) {
				t.Errorf("%s shows the number: %s", how, text)
				return
			}
		}
	}
}

type exported struct{ Account account.Number }

type unexported struct {
	account account.Number
}

func shapes(n account.Number) map[string]any {
	return map[string]any{
		"number": n, "pointer": &n, "slice": []account.Number{n}, "array": [1]account.Number{n},
		"map key": map[account.Number]int{n: 1}, "map value": map[int]account.Number{1: n},
		"field": exported{n}, "pointer to field": &exported{n}, "any": []any{n},
		"unexported field": unexported{account: n}, "pointer to unexported field": &unexported{account: n},
		"slice of unexported": []unexported{{account: n}}, "beside a bad verb": struct {
			P *int
			N account.Number
		}{N: n},
		"error": fmt.Errorf("account %v: %w", n, errors.New("x")),
	}
}

func TestNumber_NoVerbShowsIt(t *testing.T) {
	n := parse(t, full)
	for shape, value := range shapes(n) {
		for _, verb := range "vTtbcdoOqxXUeEfFgGspw!z" {
			for _, flags := range []string{"", "+", "#", "+#", " ", "0", "-", "40", "-40", ".3", "040.20", "# "} {
				format := "%" + flags + string(verb)
				hidden(t, shape+" as "+format, fmt.Sprintf(format, value))
			}
		}
		for _, broken := range []string{"x", "%", "%[2]d", "%*d"} {
			hidden(t, shape+" as "+broken, fmt.Sprintf(broken, value))
		}
		hidden(t, shape+" printed", fmt.Sprint(value))
		hidden(t, shape+" in a line", fmt.Sprintln(value))
		hidden(t, shape+" appended", string(fmt.Append(nil, value)))
	}
}

func TestNumber_VerbsShowTheMask(t *testing.T) {
	n := parse(t, full)
	const mask = "123456****1234"
	for format, want := range map[string]string{
		"%v": mask, "%+v": mask, "%s": mask, "%d": mask, "%x": mask, "%20s": mask,
		"%q": `"` + mask + `"`, "%#v": "account.Number(" + mask + ")",
	} {
		if got := fmt.Sprintf(format, n); got != want {
			t.Errorf("%s: %s, want %s", format, got, want)
		}
	}
	if got := fmt.Sprint(map[account.Number]int{n: 1}, []account.Number{n}, exported{n}); got !=
		"map["+mask+":1] ["+mask+"] {"+mask+"}" {
		t.Error(got)
	}
	if n.String() != mask || n.GoString() != "account.Number("+mask+")" {
		t.Error(n.String(), n.GoString())
	}
}

func TestNumber_NoEncodingShowsIt(t *testing.T) {
	n := parse(t, full)
	for shape, value := range shapes(n) {
		if text, err := json.Marshal(value); err == nil {
			hidden(t, shape+" as JSON", string(text))
		}
		if text, err := xml.Marshal(value); err == nil {
			hidden(t, shape+" as XML", string(text))
		}
	}
	text, err := json.Marshal(map[account.Number]exported{n: {n}})
	if want := `{"123456****1234":{"Account":"123456****1234"}}`; err != nil || string(text) != want {
		t.Errorf("JSON %s, error %v, want %s", text, err, want)
	}
	var back exported
	if err := json.Unmarshal([]byte(`{"Account":"`+full+`"}`), &back); err == nil {
		t.Error("a number is read from JSON, past Parse")
	}
}

func TestNumber_NoLoggerShowsIt(t *testing.T) {
	n := parse(t, full)
	var out bytes.Buffer
	for _, handler := range []slog.Handler{slog.NewJSONHandler(&out, nil), slog.NewTextHandler(&out, nil)} {
		for shape, value := range shapes(n) {
			out.Reset()
			logger := slog.New(handler).With("with", value)
			logger.Info("seen", "value", value, slog.Group("group", "value", value), "account", value)
			hidden(t, shape+" logged", out.String())
		}
		out.Reset()
		slog.New(handler).Info("seen", "account", n)
		if !strings.Contains(out.String(), "123456****1234") {
			t.Errorf("logged %s", out.String())
		}
	}
	out.Reset()
	log.New(&out, "", 0).Println(n, unexported{account: n}, &n)
	hidden(t, "log", out.String())
}

// The panic runs in a process of its own: what the runtime prints of it cannot be
// recovered.
func TestNumber_NoPanicShowsIt(t *testing.T) {
	shape := os.Getenv("GWANMUN_TEST_PANIC")
	if shape != "" {
		panic(shapes(parse(t, full))[shape])
	}
	for _, shape := range []string{"number", "pointer", "field", "unexported field", "slice", "map key", "error"} {
		cmd := exec.Command(os.Args[0], "-test.run", "^TestNumber_NoPanicShowsIt$")
		cmd.Env = append(os.Environ(), "GWANMUN_TEST_PANIC="+shape)
		out, err := cmd.CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("panic")) {
			t.Fatalf("%s: no panic: %s", shape, out)
		}
		hidden(t, shape+" in a panic", string(out))
	}
}

func TestParse_RefusesWhatIsNotANumberWithoutRepeatingIt(t *testing.T) {
	for _, s := range []string{
		"", "123456789012345", "12345678901234X", "-1", "+1", " 1", "1 ", "1.0", "１２３", "1\x00", "가", "12a", "0x1", "1_0",
	} {
		n, err := account.Parse(s)
		if !errors.Is(err, account.ErrNumber) || !n.IsZero() {
			t.Errorf("%q: %v, error %v", s, n, err)
		}
		if err != nil && len(s) > 2 && strings.Contains(err.Error(), s) {
			t.Errorf("error repeats the input: %v", err)
		}
	}
}

func TestHash_IsTheHMACOfTheDigitsWhoeverElseHashes(t *testing.T) {
	var all sync.WaitGroup
	for i := range 8 {
		n, key := parse(t, strconv.Itoa(1000+i)), []byte("key "+strconv.Itoa(i%3))
		mac := hmac.New(sha256.New, key)
		mac.Write(n.AppendDigits(nil))
		want := [sha256.Size]byte(mac.Sum(nil))
		all.Go(func() {
			for range 200 {
				if got := n.Hash(key); got != want {
					t.Errorf("%v under %q: %x, want %x", n, key, got, want)
					return
				}
			}
		})
	}
	all.Wait()
}

func TestNumber_EqualMeansTheSameAccount(t *testing.T) {
	key := []byte("key")
	short, long, other := parse(t, "123"), parse(t, "00000000000123"), parse(t, "1230")
	if short != long || short.Hash(key) != long.Hash(key) || short.IsZero() {
		t.Error("leading zeros make another account")
	}
	if short == other || short.Hash(key) == other.Hash(key) || short.Hash(key) == short.Hash([]byte("another")) {
		t.Error("two accounts, or two keys, are the same")
	}
	zero := parse(t, "0")
	if zero.IsZero() || zero == (account.Number{}) || string(zero.AppendDigits(nil)) != "00000000000000" {
		t.Error("the all-zero account is no account")
	}
	if got := string(long.AppendDigits([]byte("x"))); got != "x00000000000123" {
		t.Errorf("digits %s", got)
	}
	if got := (account.Number{}).AppendDigits(nil); len(got) != 0 {
		t.Errorf("no number has digits %s", got)
	}
}

func TestWon_AddNeverWrapsAround(t *testing.T) {
	for _, c := range []struct {
		a, b, want account.Won
		err        error
	}{
		{1, 2, 3, nil},
		{5, -7, -2, nil},
		{account.MaxPayment, account.MaxPayment, 1_999_999_999_998, nil},
		{math.MaxInt64, 0, math.MaxInt64, nil},
		{math.MaxInt64 - 1, 1, math.MaxInt64, nil},
		{math.MaxInt64, 1, 0, account.ErrOverflow},
		{1, math.MaxInt64, 0, account.ErrOverflow},
		{math.MinInt64, -1, 0, account.ErrOverflow},
		{-1, math.MinInt64, 0, account.ErrOverflow},
		{math.MinInt64, math.MaxInt64, -1, nil},
	} {
		got, err := c.a.Add(c.b)
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("%d + %d = %d, error %v", c.a, c.b, got, err)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := account.Parse(full); err != nil {
			b.Fatal(err)
		}
	}
}
