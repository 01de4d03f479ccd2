package rpcserver

import (
	"log/slog"
	"time"
)

// Flags are the settings that every service has. The binary's kong variables
// grpc_addr and admin_addr are the defaults of where it listens.
type Flags struct {
	GRPCAddr        string        `default:"${grpc_addr}" help:"Where to serve gRPC; port 0 takes a free one." name:"grpc-addr" type:"hostport"`
	AdminAddr       string        `default:"${admin_addr}" help:"Where to serve /livez, /readyz and /metrics over HTTP." name:"admin-addr" type:"hostport"`
	ShutdownTimeout time.Duration `default:"15s" help:"The most that a clean stop may take." name:"shutdown-timeout" type:"positive"`
	LogLevel        string        `default:"info" enum:"debug,info,warn,error" help:"The least that is logged." name:"log-level"`
}

// Level is LogLevel; INFO for anything that the flag does not allow.
func (f Flags) Level() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.LogLevel)); err != nil {
		return slog.LevelInfo
	}
	return level
}
