package integration

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
)

// logBook keeps what a process writes, line by line.
type logBook struct {
	mu      sync.Mutex
	partial []byte
	lines   []string
}

// Write takes what the process wrote.
func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.partial = append(l.partial, p...)
	for {
		line, rest, whole := bytes.Cut(l.partial, []byte{'\n'})
		if !whole {
			return len(p), nil
		}
		l.lines = append(l.lines, string(line))
		l.partial = bytes.Clone(rest)
	}
}

// all is every line so far, with an unfinished one at the end if there is one.
func (l *logBook) all() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	lines := append([]string(nil), l.lines...)
	if len(l.partial) > 0 {
		lines = append(lines, string(l.partial))
	}
	return lines
}

// text is all of it.
func (l *logBook) text() string { return strings.Join(l.all(), "\n") }

// logLine is one line that slog wrote.
type logLine map[string]any

// field is an attribute as text; empty if it is not there or no text.
func (l logLine) field(name string) string {
	text, _ := l[name].(string)
	return text
}

// parsed is every line that is a JSON object; broken has those that are not.
func (l *logBook) parsed() (lines []logLine, broken []string) {
	for _, text := range l.all() {
		var line logLine
		if json.Unmarshal([]byte(text), &line) != nil || line.field("msg") == "" {
			broken = append(broken, text)
			continue
		}
		lines = append(lines, line)
	}
	return lines, broken
}

// with is the lines whose attribute has this value.
func (l *logBook) with(name, value string) []logLine {
	var found []logLine
	lines, _ := l.parsed()
	for _, line := range lines {
		if line.field(name) == value {
			found = append(found, line)
		}
	}
	return found
}
