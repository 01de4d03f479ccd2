package cmdline

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/alecthomas/kong"
)

// prefix starts the name of every environment variable.
const prefix = "GWANMUN_"

// maxFile bounds the file of --config, in bytes.
const maxFile = 1 << 20

// variable is the environment variable of a flag.
func variable(flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment is the flag's value there; false if it is not set, or set to
// nothing.
func fromEnvironment(flag string) (string, bool) {
	value := os.Getenv(variable(flag))
	return value, value != ""
}

// addSources reads the file that --config names and puts environment and file
// behind the flags of the command line.
func addSources(ctx *kong.Context) error {
	src := &sources{}
	if path, ok := configPath(ctx); ok {
		file, err := readFile(path)
		if err != nil {
			return fmt.Errorf("--config: %w", err)
		}
		src.file = file
	}
	ctx.AddResolver(src)
	return nil
}

// configPath is where --config points, from the command line or the
// environment.
func configPath(ctx *kong.Context) (string, bool) {
	for _, p := range ctx.Path {
		if p.Flag != nil && p.Flag.Name == "config" {
			path, ok := ctx.FlagValue(p.Flag).(string)
			return path, ok
		}
	}
	return fromEnvironment("config")
}

// readFile reads the file's settings.
func readFile(path string) (map[string]any, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err // it says operation and path itself
	}
	defer func() { _ = f.Close() }() // only read
	settings, err := decodeSettings(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return settings, nil
}

var errSettings = errors.New("it must be one JSON object of flag names and values")

// decodeSettings reads one JSON object, token by token, because a map would
// swallow a key that occurs twice.
func decodeSettings(r io.Reader) (map[string]any, error) {
	dec := json.NewDecoder(r)
	dec.UseNumber()
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return nil, errSettings
	}
	settings := map[string]any{}
	for dec.More() {
		token, err := dec.Token()
		key, ok := token.(string)
		if err != nil || !ok {
			return nil, errSettings
		}
		if _, twice := settings[key]; twice {
			return nil, fmt.Errorf("%q occurs twice", key)
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			return nil, errSettings
		}
		switch value.(type) {
		case nil, map[string]any:
			return nil, fmt.Errorf("%q must be a text, a number, true, false or a list", key)
		}
		settings[key] = value
	}
	if _, err := dec.Token(); err != nil { // the closing brace
		return nil, errSettings
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errSettings
	}
	return settings, nil
}

// sources gives kong the values of environment and file, in this order.
type sources struct {
	file map[string]any
}

// Validate refuses keys of the file that are no flags.
func (s *sources) Validate(app *kong.Application) error {
	known := map[string]bool{}
	for _, group := range app.AllFlags(false) {
		for _, flag := range group {
			known[flag.Name] = true
		}
	}
	for key := range s.file {
		if _, own := map[string]bool{"config": true, "help": true, "version": true}[key]; own || !known[key] {
			return fmt.Errorf("--config: %q is not a setting", key)
		}
	}
	return nil
}

// Resolve is the value of a flag that the command line does not give.
func (s *sources) Resolve(_ *kong.Context, _ *kong.Path, flag *kong.Flag) (any, error) {
	if value, ok := fromEnvironment(flag.Name); ok {
		return value, s.try(flag, value, variable(flag.Name))
	}
	value, ok := s.file[flag.Name]
	if !ok {
		return nil, nil // kong's word for "not here"
	}
	if number, ok := value.(json.Number); ok {
		value = number.String()
	}
	return value, s.try(flag, value, "--config")
}

// try decodes a value once on the side, so that the error says where the value
// came from.
func (s *sources) try(flag *kong.Flag, value any, from string) error {
	target := reflect.New(flag.Target.Type()).Elem()
	decode := &kong.DecodeContext{Value: flag.Value, Scan: kong.Scan().PushTyped(value, kong.FlagValueToken)}
	if err := flag.Mapper.Decode(decode, target); err != nil {
		return fmt.Errorf("from %s: %w", from, err)
	}
	return nil
}
