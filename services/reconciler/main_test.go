package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/cmdline"
)

func TestRun_NonsenseIsOneLineThatNamesTheFlag(t *testing.T) {
	for _, tc := range []struct {
		flag string
		args []string
	}{
		{"--sweep-interval", []string{"--sweep-interval=0s"}},
		{"--sweep-interval", []string{"--sweep-interval=-5s"}},
		{"--sweep-interval", []string{"--sweep-interval=1ms"}},
		{"--max-attempts", []string{"--max-attempts=0"}},
		{"--max-attempts", []string{"--max-attempts=-1"}},
		{"--max-attempts", []string{"--max-attempts=1001"}},
		{"--late-window", []string{"--late-window=0s"}},
		{"--late-window", []string{"--late-window=-1m"}},
		{"--lease", []string{"--lease=0s"}},
		{"--read-timeout", []string{"--read-timeout=0s"}},
		{"--connect-timeout", []string{"--connect-timeout=-1s"}},
		{"--core-addr", []string{"--core-addr=nowhere"}},
		{"--listing-addr", []string{"--listing-addr=nowhere"}},
		{"--settlement-at", []string{"--settlement-at=24:30"}},
		{"ledger DSN", []string{"--ledger-dsn=mysql://somewhere"}},
		{"--no-such-flag", []string{"--no-such-flag"}},
	} {
		args := append([]string{"--ledger-dsn=sqlite:" + filepath.Join(t.TempDir(), "ledger.db")}, tc.args...)
		err := run(t.Context(), args)
		if cmdline.ExitCode(err) != 2 {
			t.Errorf("%v: exit %d (%v), want 2", tc.args, cmdline.ExitCode(err), err)
			continue
		}
		if text := err.Error(); !strings.Contains(text, tc.flag) || strings.Contains(text, "\n") {
			t.Errorf("%v: %q does not name %s in one line", tc.args, text, tc.flag)
		}
	}
}
