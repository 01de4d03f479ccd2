package settlement

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

type metrics struct {
	discrepancies *prometheus.GaugeVec
	runs          *prometheus.CounterVec
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{
		discrepancies: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "gwanmun_settlement_discrepancies",
			Help: "Discrepancies between both books that are OPEN: nobody has noted them, and no later run found both equal.",
		}, []string{"class"}),
		runs: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gwanmun_settlement_runs_total", Help: "Settlement runs of this process that ended, by state.",
		}, []string{"state"}),
	}
	registry.MustRegister(m.discrepancies, m.runs)
	for _, class := range ledger.DiscrepancyClasses {
		m.discrepancies.WithLabelValues(class.String())
	}
	for _, state := range []ledger.RunState{ledger.RunSucceeded, ledger.RunFailed} {
		m.runs.WithLabelValues(state.String())
	}
	return m
}

// counted sets the gauge of what is open.
func (m *metrics) counted(open map[ledger.DiscrepancyClass]int64) {
	for class, n := range open {
		m.discrepancies.WithLabelValues(class.String()).Set(float64(n))
	}
}

// ended counts a run. One whose end could not be stored will be FAILED.
func (m *metrics) ended(state ledger.RunState, err error) {
	if err != nil {
		state = ledger.RunFailed
	}
	m.runs.WithLabelValues(state.String()).Inc()
}
