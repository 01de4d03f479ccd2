package cmdline

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"reflect"
	"strconv"
	"time"

	"github.com/alecthomas/kong"
)

// Secret is a value that no one may read by accident: every way in which Go
// prints, logs or marshals it shows `***`. The zero Secret is empty.
//
// The text is behind a pointer, so that it does not show in a struct that is
// printed with the Secret in an unexported field, where fmt calls no methods.
type Secret struct {
	text *string
}

const hidden = "***"

// NewSecret hides a text.
func NewSecret(text string) Secret { return Secret{text: &text} }

// Reveal is the text itself.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String hides the text.
func (s Secret) String() string { return hidden }

// GoString hides the text.
func (s Secret) GoString() string { return hidden }

// Format hides the text for every verb.
func (s Secret) Format(f fmt.State, _ rune) {
	// A fmt.State keeps its own error; there is no one to tell here.
	_, _ = f.Write([]byte(hidden))
}

// MarshalText hides the text; JSON goes through it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue hides the text.
func (s Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// UnmarshalText takes any text.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = NewSecret(string(text))
	return nil
}

// isSecret reports whether a flag's value must not be shown.
func isSecret(v *kong.Value) bool { return v.Target.Type() == reflect.TypeFor[Secret]() }

// Addr is where to listen, or where to connect.
type Addr struct {
	// Host is a name or an IP address; empty means every interface.
	Host string
	// Port is 0 to 65535; to listen on 0 is to take any free port.
	Port uint16
}

// ErrAddr says that a text is not an address.
var ErrAddr = errors.New("must be host:port with a port of 0 to 65535, as in 127.0.0.1:9090 or [::1]:9090")

// ParseAddr reads host:port. The port is a number; names of ports are not.
func ParseAddr(s string) (Addr, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return Addr{}, ErrAddr
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || !validHost(host) {
		return Addr{}, ErrAddr
	}
	return Addr{Host: host, Port: uint16(number)}, nil
}

// validHost lets IP addresses pass and what could be a name.
func validHost(host string) bool {
	if host == "" {
		return true
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	for _, r := range host {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.' || r == '_' {
			continue
		}
		return false
	}
	return true
}

// Loopback reports whether only this machine can reach it. A name other than
// localhost is not known to be loopback.
func (a Addr) Loopback() bool {
	if a.Host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(a.Host)
	return err == nil && ip.IsLoopback()
}

// String is host:port.
func (a Addr) String() string {
	return net.JoinHostPort(a.Host, strconv.FormatUint(uint64(a.Port), 10))
}

// decodeHostPort is the value type hostport: a string that ParseAddr takes.
func decodeHostPort(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("address", &text); err != nil {
		return fmt.Errorf("address: %w", err)
	}
	if _, err := ParseAddr(text); err != nil {
		return err
	}
	target.SetString(text)
	return nil
}

var errPositive = errors.New("must be a time above zero, as in 500ms, 5s or 10m")

// decodePositive is the value type positive: a duration above zero.
func decodePositive(ctx *kong.DecodeContext, target reflect.Value) error {
	var text string
	if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
		return fmt.Errorf("duration: %w", err)
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return errPositive
	}
	target.SetInt(int64(d))
	return nil
}
