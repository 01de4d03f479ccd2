package resolve

import (
	"go.opentelemetry.io/otel/trace"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
)

// tell says in the span of an attempt where it led.
func (a *attempt) tell(resolution trace.Span, err error) {
	if !resolution.IsRecording() {
		return
	}
	if err != nil {
		span.Fail(resolution, "not resolved")
	}
	resolution.SetAttributes(span.KeyStatus.String(a.row.Status.String()), span.KeyEvidence.String(a.row.Evidence.String()),
		span.KeyMethod.String(a.row.Method.String()))
	if l := a.turn.lane; l != nil {
		resolution.SetAttributes(span.KeyLane.String(l.name))
	}
}

// tellExchange says in the span of an exchange what left, and that no valid
// answer came if none did. What the answer means is the attempt's to say.
func tellExchange(exchange trace.Span, res *corelink.Result) {
	if !exchange.IsRecording() {
		return
	}
	exchange.SetAttributes(span.KeySent.String(res.Sent.String()))
	if !res.Answered() {
		span.Fail(exchange, "no valid answer")
	}
}
