package corelink

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/telemetry/span"
)

// Metrics are what the links of one process count and time.
type Metrics struct {
	registry  prometheus.Registerer
	roundtrip *prometheus.HistogramVec
	// known are the series of the labels that this package names.
	known map[string]prometheus.Observer

	opened, reused, destroyed, expired *prometheus.CounterVec
}

// NewMetrics registers the metrics of a process's links. Every tx that this
// package names has its series from the start.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"pool"})
	}
	m := &Metrics{
		registry: registry,
		roundtrip: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gwanmun_core_roundtrip_seconds",
			Help:    "Time from the first byte of a request to the end of its exchange with the core.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"tx"}),
		opened:    counter("gwanmun_pool_opened_total", "Connections to the core that were opened."),
		reused:    counter("gwanmun_pool_reused_total", "Exchanges on a connection that had been used before."),
		destroyed: counter("gwanmun_pool_destroyed_total", "Connections to the core closed after an anomaly."),
		expired:   counter("gwanmun_pool_expired_total", "Connections to the core closed because they were idle for too long."),
	}
	m.known = make(map[string]prometheus.Observer)
	for _, tx := range []string{TxBalance, TxPayment, TxStatusInquiry, TxNetCancel, TxHistory, TxBook} {
		m.known[tx] = m.roundtrip.WithLabelValues(tx)
	}
	registry.MustRegister(m.roundtrip, m.opened, m.reused, m.destroyed, m.expired)
	return m
}

// took observes how long an exchange was. If it is traced, the histogram shows
// its trace as an example of such a length.
func (m *Metrics) took(ctx context.Context, tx string, d time.Duration) {
	series, ok := m.known[tx]
	if !ok {
		series = m.roundtrip.WithLabelValues(tx)
	}
	if traceID := span.TraceID(ctx); traceID != "" {
		if exemplary, ok := series.(prometheus.ExemplarObserver); ok {
			exemplary.ObserveWithExemplar(d.Seconds(), prometheus.Labels{"trace_id": traceID})
			return
		}
	}
	series.Observe(d.Seconds())
}

// poolMetrics are one pool's, held so that nothing is looked up for a call.
type poolMetrics struct {
	opened, reused, destroyed, expired prometheus.Counter
}

func (m *Metrics) pool(name string) poolMetrics {
	return poolMetrics{
		opened: m.opened.WithLabelValues(name), reused: m.reused.WithLabelValues(name),
		destroyed: m.destroyed.WithLabelValues(name), expired: m.expired.WithLabelValues(name),
	}
}

// watch shows how many connections a pool has. They are counted when somebody
// looks: a gauge that moves with every exchange is a line of memory that all
// callers fight for.
func (m *Metrics) watch(name string, active, idle func() float64) {
	gauge := func(metric, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: metric, Help: help, ConstLabels: prometheus.Labels{"pool": name},
		}, value)
	}
	m.registry.MustRegister(
		gauge("gwanmun_pool_active", "Connections to the core in use, or being opened.", active),
		gauge("gwanmun_pool_idle", "Connections to the core that wait for the next exchange.", idle),
	)
}
