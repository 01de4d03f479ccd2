package rpcserver

import (
	"fmt"
	"strings"
	"time"

	metrics "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
)

// series are the middleware's own of one rpc, held: to look five of them up by
// their labels for each call costs more than to count.
type series struct {
	started, received, sent prometheus.Counter
	handled                 map[string]prometheus.Counter // by the name of the code
	seconds                 prometheus.Observer
}

// begun counts a unary rpc that has come.
func (s *series) begun() {
	s.started.Inc()
	s.received.Inc()
}

// ended counts a unary rpc that has ended.
func (s *series) ended(code codes.Code, elapsed time.Duration) {
	if code == codes.OK {
		s.sent.Inc()
	}
	handled := s.handled[code.String()]
	if handled == nil { // no code of gRPC's, so that it is not known
		handled = s.handled[codes.Unknown.String()]
	}
	handled.Inc()
	s.seconds.Observe(elapsed.Seconds())
}

// hold returns the series of every rpc that is served, by its path. Those of a
// server's metrics are made when they are initialized, and not before.
func hold(m *metrics.ServerMetrics) (map[string]*series, error) {
	all := make(chan prometheus.Metric)
	go func() {
		defer close(all)
		m.Collect(all)
	}()
	held := map[string]*series{}
	var failed error
	for each := range all { // to the end, whatever fails
		if err := holdOne(held, each); err != nil {
			failed = err
		}
	}
	return held, failed
}

func holdOne(held map[string]*series, m prometheus.Metric) error {
	var now dto.Metric
	if err := m.Write(&now); err != nil {
		return fmt.Errorf("read a series of the rpc metrics: %w", err)
	}
	labels := map[string]string{}
	for _, l := range now.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	path := "/" + labels["grpc_service"] + "/" + labels["grpc_method"]
	s := held[path]
	if s == nil {
		s = &series{handled: map[string]prometheus.Counter{}}
		held[path] = s
	}
	counter, _ := m.(prometheus.Counter)
	desc := m.Desc().String()
	switch is := func(name string) bool { return strings.Contains(desc, `"`+name+`"`) }; {
	case is("grpc_server_started_total"):
		s.started = counter
	case is("grpc_server_msg_received_total"):
		s.received = counter
	case is("grpc_server_msg_sent_total"):
		s.sent = counter
	case is("grpc_server_handled_total"):
		s.handled[labels["grpc_code"]] = counter
	case is("grpc_server_handling_seconds"):
		s.seconds, _ = m.(prometheus.Observer)
	default:
		return fmt.Errorf("the middleware has a series that is not known: %s", desc)
	}
	return nil
}

// complete reports whether the rpc has every series that is counted in.
func (s *series) complete() bool {
	for code := codes.OK; code <= codes.Unauthenticated; code++ {
		if s.handled[code.String()] == nil {
			return false
		}
	}
	return s.started != nil && s.received != nil && s.sent != nil && s.seconds != nil
}
