package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
)

// jaegerConfig is a Jaeger that keeps traces in memory: where it takes spans, and
// where it is asked over HTTP and over gRPC.
const jaegerConfig = `
service:
  extensions: [jaeger_storage, jaeger_query]
  pipelines:
    traces: {receivers: [otlp], exporters: [jaeger_storage_exporter]}
  telemetry: {metrics: {level: none}}
extensions:
  jaeger_storage: {backends: {kept: {memory: {max_traces: 1000}}}}
  jaeger_query:
    storage: {traces: kept}
    http: {endpoint: %[2]q}
    grpc: {endpoint: %[3]q}
receivers:
  otlp: {protocols: {grpc: {endpoint: %[1]q}}}
exporters:
  jaeger_storage_exporter: {trace_storage: kept}
`

// jaeger is a real Jaeger.
type jaeger struct{ takes, asked string }

// startJaeger starts the Jaeger that GWANMUN_JAEGER names, as `make jaeger-check`
// does; without it the test is skipped.
func startJaeger(t *testing.T) *jaeger {
	t.Helper()
	binary := os.Getenv("GWANMUN_JAEGER")
	if binary == "" {
		t.Skip("GWANMUN_JAEGER names no Jaeger: make jaeger-check")
	}
	j := &jaeger{takes: freeAddress(t), asked: freeAddress(t)}
	config := filepath.Join(scratch(t), "jaeger.yaml")
	if err := os.WriteFile(config, fmt.Appendf(nil, jaegerConfig, j.takes, j.asked, freeAddress(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	var out logBook
	cmd := exec.Command(binary, "--config", config)
	cmd.SysProcAttr = childAttributes()
	cmd.Stdout, cmd.Stderr = &out, &out
	started := make(chan error)
	starts <- func() { started <- cmd.Start() }
	if err := <-started; err != nil {
		t.Fatalf("start Jaeger: %v", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("Jaeger says:\n%s", out.text())
		}
	})
	eventually(t, "Jaeger answers", func(ctx context.Context) error {
		_, err := j.get(ctx, "/api/services")
		return err
	})
	return j
}

// get asks Jaeger's API.
func (j *jaeger) get(ctx context.Context, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+j.asked+path, nil)
	if err != nil {
		return nil, err
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s: %.200s", path, resp.Status, body)
	}
	return body, err
}

// jaegerSpan is a span as Jaeger tells it.
type jaegerSpan struct {
	TraceID       string `json:"traceID"`
	SpanID        string `json:"spanID"`
	OperationName string `json:"operationName"`
	References    []struct {
		RefType string `json:"refType"`
		TraceID string `json:"traceID"`
		SpanID  string `json:"spanID"`
	} `json:"references"`
}

// trace waits until Jaeger has spans of these names in a trace.
func (j *jaeger) trace(t *testing.T, id string, names ...string) map[string]jaegerSpan {
	t.Helper()
	found := map[string]jaegerSpan{}
	eventually(t, "Jaeger has "+strings.Join(names, ", "), func(ctx context.Context) error {
		body, err := j.get(ctx, "/api/traces/"+id)
		if err != nil {
			return err
		}
		var answer struct {
			Data []struct {
				Spans []jaegerSpan `json:"spans"`
			} `json:"data"`
		}
		if err := json.Unmarshal(body, &answer); err != nil || len(answer.Data) != 1 {
			return fmt.Errorf("%d traces: %w", len(answer.Data), err)
		}
		for _, span := range answer.Data[0].Spans {
			found[span.OperationName] = span
		}
		for _, name := range names {
			if found[name].SpanID == "" {
				return fmt.Errorf("no span %s among %d", name, len(found))
			}
		}
		return nil
	})
	return found
}

// TestJaeger_ReadsTheStoryBack follows a payment that ended in doubt through a
// real Jaeger, from the trace that its row names.
func TestJaeger_ReadsTheStoryBack(t *testing.T) {
	j := startJaeger(t)
	flags := []string{"--otlp-endpoint=" + j.takes, "--trace-ratio=1"}
	s := newStack(t, newSQLite(t))
	s.core.terminate(t)
	s.startCore(t, flags...)
	p := s.startPayment(t, append(flags, "--read-timeout=500ms")...)
	s.startReconciler(t, flags...)
	a := p.payTraced(t, "in-doubt", unansweredAccount, "shop-9")
	if a.code == codes.OK || a.row.GetTraceId() != callersTrace {
		t.Fatalf("told %s", a)
	}
	p.follow(t, a.id())
	events := s.audit(t, p).events[a.id()]

	paid := j.trace(t, a.row.GetTraceId(), strings.TrimPrefix(createPayment, "/"), "intent", "exchange", "attempt", "outcome")
	core := j.trace(t, coreSpan(a.id()).TraceID, "core 0100", "core 0400", "core 0420")
	resolved := j.trace(t, events[len(events)-1].GetTraceId(), "resolution", "decide", "final")
	for _, c := range []struct {
		from, to jaegerSpan
	}{{paid["exchange"], core["core 0100"]}, {resolved["resolution"], paid["exchange"]}} {
		linked := false
		for _, r := range c.from.References {
			linked = linked || r.TraceID == c.to.TraceID && r.SpanID == c.to.SpanID
		}
		if !linked {
			t.Errorf("%s does not lead to %s: %+v", c.from.OperationName, c.to.OperationName, c.from.References)
		}
	}
}
