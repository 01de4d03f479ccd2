package rpcserver_test

import (
	"io"
	"log/slog"
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

func TestFlags_Level(t *testing.T) {
	for name, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError, "loud": slog.LevelInfo,
	} {
		if got := (rpcserver.Flags{LogLevel: name}).Level(); got != want {
			t.Errorf("%q is %s", name, got)
		}
	}
}
