package resolve

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

type metrics struct {
	resolutions *prometheus.CounterVec
	ghosts      prometheus.Counter
	hints       *prometheus.CounterVec

	unknown  prometheus.Gauge
	oldest   prometheus.Gauge
	review   prometheus.Gauge
	poison   prometheus.Gauge
	lastPass prometheus.Gauge
}

func newMetrics(registry prometheus.Registerer) *metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	m := &metrics{
		resolutions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gwanmun_resolutions_total", Help: "UNKNOWN transactions made final, by status and method.",
		}, []string{"status", "method"}),
		ghosts: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gwanmun_ghost_total", Help: "Evidence from the core that contradicts a final transaction.",
		}),
		hints: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gwanmun_hints_total", Help: "Hints that a transaction may have come to its end, of the core or of its talking sense again, by what became of them.",
		}, []string{"result"}),
		unknown:  gauge("gwanmun_unknown_transactions", "Transactions that are UNKNOWN."),
		oldest:   gauge("gwanmun_unknown_oldest_seconds", "Age of the oldest UNKNOWN transaction; 0 if there is none."),
		review:   gauge("gwanmun_needs_review_transactions", "UNKNOWN transactions that a human should look at."),
		poison:   gauge("gwanmun_poison_rows", "Transactions that could not be read or whose resolution failed on our side, lately."),
		lastPass: gauge("gwanmun_sweep_finished_timestamp_seconds", "When the last pass over the due transactions ended, in Unix time."),
	}
	registry.MustRegister(m.resolutions, m.ghosts, m.hints, m.unknown, m.oldest, m.review, m.poison, m.lastPass)
	for _, result := range hintResults {
		m.hints.WithLabelValues(result)
	}
	for _, v := range []struct {
		to     ledger.Status
		method ledger.Method
	}{
		{ledger.StatusSuccess, ledger.MethodStatusInquiry},
		{ledger.StatusFailed, ledger.MethodStatusInquiry},
		{ledger.StatusFailed, ledger.MethodNone},
		{ledger.StatusCanceled, ledger.MethodNetCancel},
		{ledger.StatusSuccess, ledger.MethodOperator},
		{ledger.StatusFailed, ledger.MethodOperator},
		{ledger.StatusCanceled, ledger.MethodOperator},
	} {
		m.resolutions.WithLabelValues(v.to.String(), v.method.String())
	}
	return m
}

// Ghosts counts evidence from the core that contradicts a final transaction, by
// whomever it is found.
func (r *Resolver) Ghosts() prometheus.Counter { return r.metrics.ghosts }

func (m *metrics) resolved(to ledger.Status, method ledger.Method) {
	m.resolutions.WithLabelValues(to.String(), method.String()).Inc()
}

// counted sets the gauges of the book.
func (m *metrics) counted(b *ledger.Backlog, now time.Time) {
	m.unknown.Set(float64(b.Unknown))
	m.review.Set(float64(b.NeedsReview))
	age := time.Duration(0)
	if !b.OldestUnknown.IsZero() {
		age = max(0, now.Sub(b.OldestUnknown))
	}
	m.oldest.Set(age.Seconds())
}

const (
	// poisonMemory is how long a row counts as poison after it was last seen to
	// be: longer than the longest back-off, so that it does not flicker.
	poisonMemory = 3 * backoffCap
	// maxPoisonRows bounds the memory, and thereby the gauge.
	maxPoisonRows = 10_000
)

// poisonRows are the rows that failed on our side lately.
type poisonRows struct {
	now  func() time.Time
	mu   sync.Mutex
	seen map[tranid.ID]time.Time
}

func newPoisonRows(now func() time.Time) *poisonRows {
	return &poisonRows{now: now, seen: map[tranid.ID]time.Time{}}
}

func (p *poisonRows) add(id tranid.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, known := p.seen[id]; known || len(p.seen) < maxPoisonRows {
		p.seen[id] = p.now()
	}
}

func (p *poisonRows) remove(id tranid.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.seen, id)
}

// count forgets what was not seen for long and counts the rest.
func (p *poisonRows) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	for id, at := range p.seen {
		if p.now().Sub(at) > poisonMemory {
			delete(p.seen, id)
		}
	}
	return len(p.seen)
}
