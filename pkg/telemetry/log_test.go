package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/telemetry"
)

func hostile(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }

// lines returns what log writes, one object a line, and fails on a line that is
// not one JSON object of plain text.
func lines(t *testing.T, level slog.Level, log func(*slog.Logger)) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	log(telemetry.NewLogger(&out, level, "payment"))
	var all []map[string]any
	for line := range strings.SplitAfterSeq(out.String(), "\n") {
		if line == "" {
			continue
		}
		text, ended := strings.CutSuffix(line, "\n")
		if !ended || !utf8.ValidString(text) || strings.ContainsFunc(text, hostile) {
			t.Fatalf("not a plain line: %q", line)
		}
		var object map[string]any
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatalf("%v in line %q", err, line)
		}
		all = append(all, object)
	}
	return all
}

func TestLogger_PutsTheCorrelationIDAtTheTopOfEveryLine(t *testing.T) {
	ctx := telemetry.WithCorrelationID(context.Background(), "abc-1")
	derived := map[string]func(*slog.Logger) *slog.Logger{
		"plain":             func(l *slog.Logger) *slog.Logger { return l },
		"With":              func(l *slog.Logger) *slog.Logger { return l.With("a", 1) },
		"WithGroup":         func(l *slog.Logger) *slog.Logger { return l.WithGroup("g") },
		"With in WithGroup": func(l *slog.Logger) *slog.Logger { return l.WithGroup("g").With("a", 1).WithGroup("h").With("b", 2) },
		"empty group":       func(l *slog.Logger) *slog.Logger { return l.WithGroup("") },
	}
	for name, derive := range derived {
		t.Run(name, func(t *testing.T) {
			got := lines(t, slog.LevelInfo, func(l *slog.Logger) {
				derive(l).InfoContext(ctx, "settled", "k", "v")
				derive(l).Info("without")
			})
			if got[0]["correlation_id"] != "abc-1" || got[0]["service"] != "payment" || got[0]["msg"] != "settled" {
				t.Errorf("first line: %v", got[0])
			}
			if _, ok := got[1]["correlation_id"]; ok {
				t.Errorf("a line without context has a correlation ID: %v", got[1])
			}
		})
	}
}

func TestLogger_PutsTheTraceAtTheTopOfEveryLine(t *testing.T) {
	span := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 15: 2}, SpanID: trace.SpanID{3}})
	ctx := trace.ContextWithSpanContext(telemetry.WithCorrelationID(context.Background(), "abc-1"), span)
	for _, line := range lines(t, slog.LevelInfo, func(l *slog.Logger) {
		l.InfoContext(ctx, "settled")
		l.WithGroup("g").With("a", 1).InfoContext(ctx, "settled", "b", 2)
	}) {
		if line["trace_id"] != "01000000000000000000000000000002" || line["span_id"] != "0300000000000000" || line["correlation_id"] != "abc-1" {
			t.Errorf("line is %v", line)
		}
	}
}

func TestLogger_KeepsGroupsAsTheyWereOpened(t *testing.T) {
	ctx := telemetry.WithCorrelationID(context.Background(), "abc-1")
	got := lines(t, slog.LevelInfo, func(l *slog.Logger) {
		base := l.WithGroup("g").With("a", 1).With("c", 3)
		first, second := base.WithGroup("h"), base.With("b", 2) // both from the same steps
		first.InfoContext(ctx, "one", "x", 1)
		second.InfoContext(ctx, "two")
	})
	first, _ := json.Marshal(got[0]["g"])
	second, _ := json.Marshal(got[1]["g"])
	if string(first) != `{"a":1,"c":3,"h":{"x":1}}` || string(second) != `{"a":1,"b":2,"c":3}` {
		t.Errorf("groups are %s and %s", first, second)
	}
}

// Text from outside reaches a log line as a message of the core, as a panic or
// as an error. No byte of it may end the line or speak to a terminal.
func TestLogger_NoInputBreaksALine(t *testing.T) {
	texts := []string{
		"\r\n{\"level\":\"INFO\",\"msg\":\"forged\"}\r\n", "\x1b[2J\x1b]0;owned\x07", "\xff\xfe\xc3\x28", "\x00\x7f\u0085\u2028\u2029\u202e\u009b2J\U000e0041",
		"only a\x7f", `quotes " and \ backslashes`, strings.Repeat("\xf0\x9f", 100),
	}
	for _, text := range texts {
		got := lines(t, slog.LevelInfo, func(l *slog.Logger) {
			l.Info(text, text, text, slog.Group(text, text, text))
			l.WithGroup(text).With(text, text).Error("failed", "error", errors.New(text), "any", map[string]string{text: text})
		})
		if len(got) != 2 {
			t.Errorf("%q makes %d lines of 2", text, len(got))
		}
		if utf8.ValidString(text) && got[0]["msg"] != text {
			t.Errorf("%q is read back as %q", text, got[0]["msg"])
		}
	}
}

func TestLogger_WritesUTCAndHonoursTheLevel(t *testing.T) {
	got := lines(t, slog.LevelWarn, func(l *slog.Logger) {
		l.Info("not shown")
		seoul := time.Date(2026, 1, 2, 3, 0, 0, 0, time.FixedZone("Asia/Seoul", 9*60*60))
		if err := l.Handler().Handle(context.Background(), slog.NewRecord(seoul, slog.LevelWarn, "shown", 0)); err != nil {
			t.Error(err)
		}
	})
	if len(got) != 1 || got[0]["time"] != "2026-01-01T18:00:00Z" {
		t.Errorf("lines are %v", got)
	}
}
