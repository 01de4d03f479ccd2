package corelink

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what the links of one process count and time.
type Metrics struct {
	roundtrip *prometheus.HistogramVec
	// known are the series of the labels that this package names.
	known map[string]prometheus.Observer

	active, idle                       *prometheus.GaugeVec
	opened, reused, destroyed, expired *prometheus.CounterVec
}

// NewMetrics registers the metrics of a process's links. Every tx that this
// package names has its series from the start.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"pool"})
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"pool"})
	}
	m := &Metrics{
		roundtrip: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "gwanmun_core_roundtrip_seconds",
			Help:    "Time from the first byte of a request to the end of its exchange with the core.",
			Buckets: []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5},
		}, []string{"tx"}),
		active:    gauge("gwanmun_pool_active", "Connections to the core in use, or being opened."),
		idle:      gauge("gwanmun_pool_idle", "Connections to the core that wait for the next exchange."),
		opened:    counter("gwanmun_pool_opened_total", "Connections to the core that were opened."),
		reused:    counter("gwanmun_pool_reused_total", "Exchanges on a connection that had been used before."),
		destroyed: counter("gwanmun_pool_destroyed_total", "Connections to the core closed after an anomaly."),
		expired:   counter("gwanmun_pool_expired_total", "Connections to the core closed because they were idle for too long."),
	}
	m.known = make(map[string]prometheus.Observer)
	for _, tx := range []string{TxBalance, TxPayment, TxStatusInquiry, TxNetCancel} {
		m.known[tx] = m.roundtrip.WithLabelValues(tx)
	}
	registry.MustRegister(m.roundtrip, m.active, m.idle, m.opened, m.reused, m.destroyed, m.expired)
	return m
}

// took observes how long an exchange was.
func (m *Metrics) took(tx string, d time.Duration) {
	series, ok := m.known[tx]
	if !ok {
		series = m.roundtrip.WithLabelValues(tx)
	}
	series.Observe(d.Seconds())
}

// poolMetrics are one pool's, held so that nothing is looked up for a call.
type poolMetrics struct {
	active, idle                       prometheus.Gauge
	opened, reused, destroyed, expired prometheus.Counter
}

func (m *Metrics) pool(name string) poolMetrics {
	return poolMetrics{
		active: m.active.WithLabelValues(name), idle: m.idle.WithLabelValues(name),
		opened: m.opened.WithLabelValues(name), reused: m.reused.WithLabelValues(name),
		destroyed: m.destroyed.WithLabelValues(name), expired: m.expired.WithLabelValues(name),
	}
}
