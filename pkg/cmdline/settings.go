package cmdline

import (
	"context"
	"log/slog"
	"os"
	"reflect"
	"regexp"
	"strings"
	"time"
)

// The values of a `shown` tag: how a setting is shown that is text and may be a
// secret.
const (
	// shownDSN is a data source name, shown without its password.
	shownDSN = "dsn"
	// shownKey is a key, or file:PATH of one: the path is shown, a key is not.
	shownKey = "key"
)

// Effective is implemented by flags whose unset values stand for others.
type Effective interface {
	// Effective are the values that count, by the names of their flags.
	Effective() map[string]any
}

// Starting is a line of a binary's log, for when nothing that it was told has
// turned out to be wrong: its version, and every setting that it runs with,
// wherever that came from. No secret is in it: a Secret shows
// as `***`, what a `shown` tag marks as that says, and a value of a type that
// this package does not know as `***`, too. A WARN names the variables that look
// like settings and are read by none.
func Starting(ctx context.Context, logger *slog.Logger, version string, cfg any) {
	logger.InfoContext(ctx, "starting", "version", version, slog.GroupAttrs("settings", Settings(cfg)...))
	if names := unread(cfg, os.Environ()); len(names) > 0 {
		logger.WarnContext(ctx, "variables are set that no setting reads", "variables", names)
	}
}

// Settings are the values of the flags in cfg, a pointer to a struct with kong
// tags that Parse has filled, in the order in which they are declared; see
// Starting for what is hidden. A setting that is not set is left out.
func Settings(cfg any) []slog.Attr {
	return settingsOf(reflect.ValueOf(cfg).Elem(), "", nil)
}

func settingsOf(v reflect.Value, prefix string, attrs []slog.Attr) []slog.Attr {
	var instead map[string]any
	if e, ok := v.Addr().Interface().(Effective); ok {
		instead = e.Effective()
	}
	for i := range v.NumField() {
		field, value := v.Type().Field(i), v.Field(i)
		if _, embedded := field.Tag.Lookup("embed"); embedded {
			attrs = settingsOf(value, prefix+field.Tag.Get("prefix"), attrs)
			continue
		}
		name := flagName(field)
		if name == "" {
			continue
		}
		if other, ok := instead[name]; ok {
			value = reflect.ValueOf(other)
		}
		if shown, ok := show(value, field.Tag.Get("shown")); ok {
			attrs = append(attrs, slog.Any(strings.ReplaceAll(prefix+name, "-", "_"), shown))
		}
	}
	return attrs
}

// words finds where kong begins a new word in the name of a field.
var words = regexp.MustCompile(`([a-z])([A-Z0-9])|([0-9])([A-Za-z])|([A-Z])([A-Z][a-z])`)

// flagName is the flag of a field, as kong names it; empty if it is none.
func flagName(field reflect.StructField) string {
	if name, ok := field.Tag.Lookup("name"); ok {
		return name
	}
	if _, ok := field.Tag.Lookup("help"); !ok {
		return ""
	}
	return strings.ToLower(words.ReplaceAllString(field.Name, "$1$3$5-$2$4$6"))
}

// show is a value as the log may have it; false if it is not set.
func show(v reflect.Value, how string) (any, bool) {
	switch value := v.Interface().(type) {
	case Secret:
		return hidden, value.Reveal() != ""
	case time.Duration:
		return value.String(), true
	case []string:
		return value, len(value) > 0
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil, false
		}
		return show(v.Elem(), how)
	case reflect.String:
		return showText(v.String(), how), v.String() != ""
	case reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		return v.Interface(), true
	default:
		return hidden, true
	}
}

func showText(text, how string) string {
	switch how {
	case "":
		return text
	case shownDSN:
		return showDSN(text)
	case shownKey:
		if strings.HasPrefix(text, "file:") {
			return text
		}
	}
	return hidden
}
