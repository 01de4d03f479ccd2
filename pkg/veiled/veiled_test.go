package veiled_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gwanmun/gwanmun/pkg/veiled"
)

func TestText_IsWhatWasVeiled(t *testing.T) {
	for _, s := range []string{"", "1", "12345678901234", strings.Repeat("\x00", 64), strings.Repeat("long", 100)} {
		text := veiled.Of(s)
		if got := string(text.Append([]byte("before "))); got != "before "+s {
			t.Errorf("%q: %q", s, got)
		}
		if text != veiled.Of(s) || text == veiled.Of(s+"x") || text.IsZero() {
			t.Errorf("%q is not equal to itself alone", s)
		}
	}
	var none veiled.Text
	if got := none.Append(nil); len(got) != 0 || !none.IsZero() {
		t.Errorf("no text has %q", got)
	}
}

func TestText_NothingThatLooksIntoItFindsIt(t *testing.T) {
	type holder struct{ text veiled.Text }
	const secret = "12345678901234"
	one, other := holder{veiled.Of(secret)}, holder{veiled.Of("secret")}
	all := cmp.Exporter(func(reflect.Type) bool { return true })
	for how, text := range map[string]string{
		"%v": fmt.Sprintf("%v", one), "%+v": fmt.Sprintf("%+v", &one), "%#v": fmt.Sprintf("%#v", one),
		"%x": fmt.Sprintf("%x", one), "cmp": cmp.Diff(one, other, all),
	} {
		if strings.Contains(text, secret) || strings.Contains(text, "secret") || strings.Contains(text, fmt.Sprintf("%x", secret)) {
			t.Errorf("%s: %s", how, text)
		}
	}
}
