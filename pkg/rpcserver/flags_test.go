package rpcserver_test

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/cmdline"
	"github.com/gwanmun/gwanmun/pkg/rpcserver"
)

func TestFlags_HaveTheDefaultsOfTheBinaryAndAreChecked(t *testing.T) {
	var cfg struct {
		Server rpcserver.Flags `embed:""`
	}
	parse := func(args ...string) error {
		return cmdline.Parse("payment", "v", "d", args, &cfg,
			map[string]string{"grpc_addr": "127.0.0.1:9090", "admin_addr": "127.0.0.1:8090"}, io.Discard)
	}
	if err := parse(); err != nil {
		t.Fatal(err)
	}
	want := rpcserver.Flags{
		GRPCAddr: "127.0.0.1:9090", AdminAddr: "127.0.0.1:8090", ShutdownTimeout: 15 * time.Second, LogLevel: "info",
	}
	if cfg.Server != want {
		t.Errorf("defaults are %+v, want %+v", cfg.Server, want)
	}
	for _, bad := range []string{"--grpc-addr=9090", "--admin-addr=x", "--shutdown-timeout=0s", "--log-level=loud"} {
		if err := parse(bad); cmdline.ExitCode(err) != 2 {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

func TestFlags_TheLimitsThatCountAreTold(t *testing.T) {
	ten := 10
	for name, c := range map[string]struct {
		flags rpcserver.Flags
		want  string
	}{
		"nothing is set":     {rpcserver.Flags{}, "[rate_limit=0 rate_burst=0 max_in_flight=0]"},
		"clients are listed": {rpcserver.Flags{ClientsFile: "f"}, "[clients_file=f rate_limit=200 rate_burst=400 max_in_flight=1024]"},
		"one of them is set": {rpcserver.Flags{ClientsFile: "f", RateLimit: &ten}, "[clients_file=f rate_limit=10 rate_burst=20 max_in_flight=1024]"},
	} {
		told := slices.DeleteFunc(cmdline.Settings(&c.flags), func(a slog.Attr) bool {
			return !slices.Contains([]string{"clients_file", "rate_limit", "rate_burst", "max_in_flight"}, a.Key)
		})
		if got := fmt.Sprint(told); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestFlags_Level(t *testing.T) {
	for name, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError, "loud": slog.LevelInfo,
	} {
		if got := (rpcserver.Flags{LogLevel: name}).Level(); got != want {
			t.Errorf("%q is %s", name, got)
		}
	}
}

// What is plain to see is refused before a ledger is made for it.
func TestFlags_AnOpenPortIsRefusedBeforeAnythingIsBegun(t *testing.T) {
	for name, tc := range map[string]struct {
		flags rpcserver.Flags
		ok    bool
	}{
		"loopback":            {rpcserver.Flags{GRPCAddr: "127.0.0.1:1", AdminAddr: "[::1]:0"}, true},
		"a name":              {rpcserver.Flags{GRPCAddr: "localhost:1", AdminAddr: "bank.example:1"}, true},
		"all addresses":       {rpcserver.Flags{GRPCAddr: "0.0.0.0:1", AdminAddr: "127.0.0.1:1"}, false},
		"no host":             {rpcserver.Flags{GRPCAddr: ":1", AdminAddr: "127.0.0.1:1"}, false},
		"admin":               {rpcserver.Flags{GRPCAddr: "127.0.0.1:1", AdminAddr: "10.0.0.1:1"}, false},
		"admin that is meant": {rpcserver.Flags{GRPCAddr: "127.0.0.1:1", AdminAddr: "10.0.0.1:1", AdminInsecure: true}, true},
		"closed": {rpcserver.Flags{
			GRPCAddr: "10.0.0.1:1", AdminAddr: "127.0.0.1:1", ClientsFile: "clients.json", TLSCert: "cert.pem",
		}, true},
		"meant": {rpcserver.Flags{GRPCAddr: "10.0.0.1:1", AdminAddr: ":1", Insecure: true}, true},
	} {
		if err := tc.flags.Validate(); (err == nil) != tc.ok {
			t.Errorf("%s: error %v", name, err)
		}
	}
}
