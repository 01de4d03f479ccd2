package rpcserver

import (
	"errors"
	"log/slog"
	"net"
	"time"

	"github.com/gwanmun/gwanmun/pkg/access"
)

// Flags are the settings that every service has. The binary's kong variables
// grpc_addr and admin_addr are the defaults of where it listens.
type Flags struct {
	GRPCAddr        string        `default:"${grpc_addr}" help:"Where to serve gRPC; port 0 takes a free one." name:"grpc-addr" type:"hostport"`
	AdminAddr       string        `default:"${admin_addr}" help:"Where to serve /livez, /readyz and /metrics over HTTP." name:"admin-addr" type:"hostport"`
	ShutdownTimeout time.Duration `default:"15s" help:"The most that a clean stop may take." name:"shutdown-timeout" type:"positive"`

	ClientsFile string `help:"Who may call, by the digests of their keys, in JSON; unset, everyone may do everything." name:"clients-file" placeholder:"FILE"`
	TLSCert     string `help:"Serve gRPC over TLS with this certificate, in PEM; read again when it changes." name:"tls-cert" placeholder:"FILE"`
	TLSKey      string `help:"The certificate's key." name:"tls-key" placeholder:"FILE"`
	TLSClientCA string `help:"Let in only callers with a certificate that one of these has signed." name:"tls-client-ca" placeholder:"FILE"`
	Insecure    bool   `help:"Listen off loopback without keys or without TLS." name:"insecure"`

	AdminInsecure bool `help:"Let the admin port listen off loopback, though it has neither keys nor TLS; --insecure does it too." name:"admin-insecure"`

	RateLimit   *int `help:"Calls a second for each client, on average; 0 is no limit (by default 200 with --clients-file, else 0)." name:"rate-limit" placeholder:"N"`
	RateBurst   *int `help:"Calls of a client that may come at once (by default twice --rate-limit)." name:"rate-burst" placeholder:"N"`
	MaxInFlight *int `help:"Calls of a client that may be under way at once; 0 is no limit (by default 1024 with --clients-file, else 0)." name:"max-in-flight" placeholder:"N"`

	LogLevel string `default:"info" enum:"debug,info,warn,error" help:"The least that is logged." name:"log-level"`
}

// The limits of each client, once clients are configured.
const (
	defaultRate     = 200
	defaultInFlight = 1024
)

// Validate reports what is wrong with the settings, in one line.
func (f *Flags) Validate() error {
	limits := f.limits()
	switch {
	case limits.Rate == 0 && f.RateBurst != nil:
		return errors.New("--rate-burst is of no use without --rate-limit")
	case limits.Rate < 0:
		return errors.New("--rate-limit must not be negative")
	case limits.Rate > 0 && limits.Burst < 1:
		return errors.New("--rate-burst must be positive")
	case limits.InFlight < 0:
		return errors.New("--max-in-flight must not be negative")
	}
	return errors.Join(f.checkNamed("grpc", f.GRPCAddr), f.checkNamed("admin", f.AdminAddr))
}

// checkNamed is checkReach of an address that is plain to see before anything is
// begun; a name is looked at when it is known what it stands for.
func (f *Flags) checkNamed(name, address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil //nolint:nilerr // whoever listens there says so
	}
	ip := net.ParseIP(host)
	if host == "" {
		ip = net.IPv6unspecified
	}
	if ip == nil {
		return nil
	}
	_, err = f.checkReach(name, &net.TCPAddr{IP: ip}, address)
	return err
}

// checkReach refuses a port that other machines reach and that is not closed to
// strangers, unless that is wanted: then it is open.
func (f *Flags) checkReach(name string, tcp *net.TCPAddr, shown string) (open bool, err error) {
	closed := name == "grpc" && f.ClientsFile != "" && f.TLSCert != ""
	switch {
	case closed, tcp.IP.IsLoopback():
		return false, nil
	case f.Insecure, name == "admin" && f.AdminInsecure:
		return true, nil
	case name == "grpc":
		return false, usagef("%s is not loopback: it needs --clients-file and TLS, or --insecure", shown)
	default:
		return false, usagef("%s is not loopback, and the admin port is for whoever reaches it: it needs --admin-insecure", shown)
	}
}

// limits are those of each client.
func (f *Flags) limits() access.Limits {
	var l access.Limits
	if f.ClientsFile != "" {
		l = access.Limits{Rate: defaultRate, InFlight: defaultInFlight}
	}
	if f.RateLimit != nil {
		l.Rate = *f.RateLimit
	}
	l.Burst = 2 * l.Rate
	if f.RateBurst != nil {
		l.Burst = *f.RateBurst
	}
	if f.MaxInFlight != nil {
		l.InFlight = *f.MaxInFlight
	}
	return l
}

// Effective are the limits that count where none is set.
func (f *Flags) Effective() map[string]any {
	l := f.limits()
	return map[string]any{"rate-limit": l.Rate, "rate-burst": l.Burst, "max-in-flight": l.InFlight}
}

// Level is LogLevel; INFO for anything that the flag does not allow.
func (f Flags) Level() slog.Level {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.LogLevel)); err != nil {
		return slog.LevelInfo
	}
	return level
}
