package gormstore

import (
	"bytes"
	"encoding"
	"encoding/base64"
	"encoding/gob"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/telemetry"
)

// The canaries: secrets of which no run of bytes occurs by chance.
const (
	canaryNumber = "73519284607153"
	canaryKey    = "9b1fd0c47a3e58262cd5f60b91ae847360bf15d2c93e8a4c7705be9d21f4638a"
)

// canary is a secret, and the ways in which it may lie about.
type canary struct {
	name   string
	shapes map[string]any
	// alike is a value of the same type that prints alike and is another.
	alike any
	// secret is the bytes themselves, of which no run may be seen that is this long.
	secret []byte
	run    int
}

func canaries(t *testing.T) []canary {
	t.Helper()
	number, err := account.Parse(canaryNumber)
	alike, err2 := account.Parse("73519200007153")
	key, err3 := ledger.ParseHashKey(canaryKey)
	other, err4 := ledger.ParseHashKey(strings.Repeat("5a", 32))
	if err := errors.Join(err, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return []canary{
		{"account number", shapesOf(number), alike, []byte(canaryNumber), 7},
		{"hash key", shapesOf(key), other, keyBytes(), 8},
	}
}

// plain is a secret that nothing hides: what does not find it is blind.
func plainText() canary {
	return canary{"plain text", shapesOf(canaryNumber), "another", []byte(canaryNumber), 7}
}

func keyBytes() []byte {
	b := make([]byte, len(canaryKey)/2)
	for i := range b {
		n, _ := strconv.ParseUint(canaryKey[2*i:2*i+2], 16, 8)
		b[i] = byte(n)
	}
	return b
}

// openHolder holds it where everybody sees it.
type openHolder[T any] struct{ Secret T }

// closedHolder holds it where fmt finds it without its methods.
type closedHolder[T any] struct{ secret T }

// holderError is an error that is about it.
type holderError[T any] struct{ Secret T }

func (e holderError[T]) Error() string { return fmt.Sprintf("nothing for %v", e.Secret) }

func shapesOf[T comparable](secret T) map[string]any {
	return map[string]any{
		"itself": secret, "pointer": &secret, "pointer to a pointer": new(&secret),
		"slice": []T{secret}, "array": [1]T{secret}, "any": []any{secret},
		"map key": map[T]int{secret: 1}, "map value": map[string]T{"k": secret}, "map of holders": map[string]any{"k": openHolder[T]{secret}},
		"holder": openHolder[T]{secret}, "pointer to a holder": &openHolder[T]{secret},
		"closed holder": closedHolder[T]{secret}, "pointer to a closed holder": &closedHolder[T]{secret},
		"slice of closed holders": []closedHolder[T]{{secret}}, "closed holder in one": closedHolder[closedHolder[T]]{closedHolder[T]{secret}},
		"error": holderError[T]{secret}, "wrapped error": fmt.Errorf("ask: %w", holderError[T]{secret}),
		"joined errors": errors.Join(errors.New("x"), fmt.Errorf("pay %v %+v: %w", secret, secret, &holderError[T]{secret})),
	}
}

// look fails the test if text has a run of the secret, as it is or in one of the
// forms that printers and encodings give it.
func (c *canary) look(t *testing.T, how, text string) {
	t.Helper()
	if form := c.find(text); form != "" {
		t.Errorf("%s: %s shows it as %q: %q", c.name, how, form, text)
	}
}

func (c *canary) find(text string) string {
	for start := 0; start+c.run <= len(c.secret); start++ {
		run := c.secret[start : start+c.run]
		quoted := strconv.Quote(string(run))
		decimals, hexes := make([]string, len(run)), make([]string, len(run))
		for i, b := range run {
			decimals[i], hexes[i] = strconv.Itoa(int(b)), fmt.Sprintf("%#x", b)
		}
		forms := []string{
			string(run), quoted[1 : len(quoted)-1], fmt.Sprintf("%x", run), fmt.Sprintf("%X", run), fmt.Sprintf("% x", run),
			strings.Join(decimals, " "), strings.Join(decimals, ","), strings.Join(decimals, ", "), strings.Join(hexes, ", "),
			base64.StdEncoding.EncodeToString(run[:c.run/3*3]),
		}
		for _, form := range forms {
			if strings.Contains(text, form) {
				return form
			}
		}
	}
	return ""
}

// way is one in which a value may get out. It returns all that came out, errors
// too.
type way struct {
	name string
	out  func(c *canary, value any) string
}

// ways are those that need nothing but the value.
var ways = []way{
	{"fmt", formatted},
	{"log", func(_ *canary, v any) string {
		var out bytes.Buffer
		log.New(&out, "", 0).Println(v)
		log.New(&out, "", 0).Printf("%v", v)
		return out.String()
	}},
	{"slog text", func(_ *canary, v any) string {
		var out bytes.Buffer
		return logged(slog.New(slog.NewTextHandler(&out, nil)), &out, v)
	}},
	{"slog JSON", func(_ *canary, v any) string {
		var out bytes.Buffer
		return logged(slog.New(slog.NewJSONHandler(&out, nil)), &out, v)
	}},
	{"the services' log", func(_ *canary, v any) string {
		var out bytes.Buffer
		return logged(telemetry.NewLogger(&out, slog.LevelDebug, "payment"), &out, v)
	}},
	{"JSON", func(_ *canary, v any) string { return encoded(json.Marshal(v)) }},
	{"indented JSON", func(_ *canary, v any) string { return encoded(json.MarshalIndent(v, "", " ")) }},
	{"XML", func(_ *canary, v any) string { return encoded(xml.Marshal(v)) }},
	{"gob", func(_ *canary, v any) string {
		var out bytes.Buffer
		err := gob.NewEncoder(&out).Encode(v)
		return encoded(out.Bytes(), err)
	}},
	{"go-cmp", compared},
	{"reflection", func(_ *canary, v any) string {
		var out strings.Builder
		dump(&out, reflect.ValueOf(v), 12)
		return out.String()
	}},
	{"a recovered panic", func(_ *canary, v any) (text string) {
		defer func() {
			r := recover()
			text = fmt.Sprint(r) + fmt.Sprintf("%v %+v %#v", r, r, r)
		}()
		panic(v)
	}},
}

func formatted(_ *canary, v any) string {
	var out strings.Builder
	for _, verb := range "vTtbcdoOqxXUeEfFgGspwz!" {
		for _, flags := range []string{"", "+", "#", "+#", " ", "0", "-", "40", "-40", ".20", "040.20", "# "} {
			_, _ = fmt.Fprintf(&out, "%"+flags+string(verb)+"\n", v)
		}
	}
	for _, broken := range []string{"x", "%", "%[2]d", "%*d"} {
		_, _ = fmt.Fprintf(&out, broken, v)
	}
	_, _ = fmt.Fprint(&out, v)
	_, _ = fmt.Fprintln(&out, v)
	wrap := "%w"
	err := fmt.Errorf("a "+wrap+" b %v", v, v)
	return out.String() + err.Error() + fmt.Sprintf("%+v %#v", err, err)
}

func logged(l *slog.Logger, out *bytes.Buffer, v any) string {
	l.With("with", v).WithGroup("g").Info("seen", "value", v, slog.Group("group", "value", v), slog.Any("any", v))
	l.Error("failed", "error", fmt.Errorf("with %v", v))
	return out.String()
}

// compared is what go-cmp says of two values, of which it prints the parts when
// they look alike.
func compared(c *canary, v any) string {
	all := cmp.Exporter(func(reflect.Type) bool { return true })
	text := cmp.Diff(v, nil, all)
	return text + cmp.Diff(c.shapes["itself"], c.alike, all) + cmp.Diff([]any{v}, []any{c.alike}, all)
}

func encoded(b []byte, err error) string { return fmt.Sprintf("%s\n%q\n%v", b, b, err) }

// dump writes every text and number that can be reached from a value, as printers
// do that ask it nothing.
func dump(out *strings.Builder, v reflect.Value, depth int) {
	if depth == 0 {
		return
	}
	switch v.Kind() {
	case reflect.String:
		_, _ = fmt.Fprintln(out, v.String())
	case reflect.Uint8, reflect.Uint64:
		_, _ = fmt.Fprintf(out, "%d ", v.Uint())
	case reflect.Int, reflect.Int64:
		_, _ = fmt.Fprintln(out, v.Int())
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			dump(out, v.Elem(), depth-1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			dump(out, v.Field(i), depth-1)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			dump(out, v.Index(i), depth-1)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			dump(out, key, depth-1)
			dump(out, v.MapIndex(key), depth-1)
		}
	default:
	}
}

// What a value is never to be put in, everything that prints is tried with it, and
// with a plain text, which must be found: else the look is blind.
func TestMasking_NothingShowsAnAccountNumberOrTheHashKey(t *testing.T) {
	for _, w := range ways {
		t.Run(w.name, func(t *testing.T) { tryWay(t, w, true) })
	}
	eachStore(t, func(t *testing.T, s *Store) {
		s, out := telling(s)
		for _, w := range databaseWays(s, out) {
			t.Run(w.name, func(t *testing.T) { tryWay(t, w.way, w.shows) })
		}
	})
}

func tryWay(t *testing.T, w way, shows bool) {
	t.Helper()
	for _, c := range canaries(t) {
		for _, shape := range slices.Sorted(maps.Keys(c.shapes)) {
			c.look(t, w.name+" of "+shape, w.out(&c, c.shapes[shape]))
		}
	}
	p, found := plainText(), ""
	for _, value := range p.shapes {
		if text := w.out(&p, value); p.find(text) != "" {
			found = text
		}
	}
	if (found != "") != shows {
		t.Errorf("%s of a plain text shows it: %q, want %t", w.name, found, shows)
	}
}

func TestMasking_TextAndBinaryFormsAreTheMask(t *testing.T) {
	for _, c := range canaries(t) {
		value := c.shapes["itself"]
		if m, ok := value.(encoding.TextMarshaler); ok {
			c.look(t, "MarshalText", encoded(m.MarshalText()))
		} else {
			t.Errorf("%s has no text form, and JSON looks into it", c.name)
		}
		if _, ok := value.(encoding.BinaryMarshaler); ok {
			t.Errorf("%s has a binary form", c.name)
		}
		if _, ok := value.(gob.GobEncoder); ok {
			t.Errorf("%s is for gob", c.name)
		}
		pointer := c.shapes["pointer"]
		if _, ok := pointer.(encoding.TextUnmarshaler); ok {
			t.Errorf("%s can be read past its parser", c.name)
		}
	}
}
