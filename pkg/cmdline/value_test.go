package cmdline_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/cmdline"
)

func TestSecret_ShowsNowhere(t *testing.T) {
	secret := cmdline.NewSecret("hunter2")
	type nested struct {
		Exported   cmdline.Secret
		unexported cmdline.Secret
		pointer    *cmdline.Secret
		in         map[string]cmdline.Secret
	}
	all := nested{secret, secret, &secret, map[string]cmdline.Secret{"k": secret}}
	var shown strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%T", "%p"} {
		for _, value := range []any{secret, &secret, all, &all, []cmdline.Secret{secret}, all.in} {
			fmt.Fprintf(&shown, verb+"\n", value)
		}
	}
	marshaled, err := json.Marshal(map[string]any{"s": secret, "n": all})
	if err != nil {
		t.Fatal(err)
	}
	shown.Write(marshaled)
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).Info("m", "s", secret, "p", &secret, "n", all)
	slog.New(slog.NewTextHandler(&log, nil)).Info("m", "s", secret, "p", &secret, "n", all)
	shown.Write(log.Bytes())
	for _, leak := range []string{"hunter2", "68756e74657232", "68756E74657232", "[104 117"} {
		if strings.Contains(shown.String(), leak) {
			t.Errorf("%q shows in:\n%s", leak, shown.String())
		}
	}
	if fmt.Sprint(secret) != "***" || secret.Reveal() != "hunter2" {
		t.Errorf("prints %v, reveals %q", secret, secret.Reveal())
	}
	if (cmdline.Secret{}).Reveal() != "" {
		t.Error("the zero Secret is not empty")
	}
}

func TestParseAddr(t *testing.T) {
	for _, c := range []struct {
		text     string
		ok       bool
		loopback bool
	}{
		{"127.0.0.1:9090", true, true},
		{"127.8.9.10:0", true, true},
		{"[::1]:9090", true, true},
		{"[::ffff:127.0.0.1]:1", true, true},
		{"localhost:65535", true, true},
		{":9090", true, false},
		{"0.0.0.0:9090", true, false},
		{"[::]:9090", true, false},
		{"10.0.0.1:9090", true, false},
		{"core.bank.example:9099", true, false},
		{"localhost.evil.example:1", true, false},
		{"", false, false},
		{"127.0.0.1", false, false},
		{"127.0.0.1:", false, false},
		{"127.0.0.1:65536", false, false},
		{"127.0.0.1:-1", false, false},
		{"127.0.0.1:+1", false, false},
		{"127.0.0.1:http", false, false},
		{"::1:9090", false, false},
		{"http://127.0.0.1:9090", false, false},
		{"a b:1", false, false},
		{"호스트:1", false, false},
		{"host\n:1", false, false},
	} {
		addr, err := cmdline.ParseAddr(c.text)
		if (err == nil) != c.ok || addr.Loopback() != c.loopback {
			t.Errorf("ParseAddr(%q) = %+v (loopback %t), %v", c.text, addr, addr.Loopback(), err)
		}
		if err == nil && addr.String() != c.text {
			t.Errorf("%q is read back as %q", c.text, addr)
		}
		if err != nil && !errors.Is(err, cmdline.ErrAddr) { // which repeats no input
			t.Errorf("ParseAddr(%q) says %v", c.text, err)
		}
	}
}
