package resilience

import "github.com/prometheus/client_golang/prometheus"

var (
	stateDesc = prometheus.NewDesc("gwanmun_circuit_state",
		"State of the circuit: 0 closed, 1 open, 2 half-open.", []string{"circuit"}, nil)
	openedDesc = prometheus.NewDesc("gwanmun_circuit_opened_total",
		"How often the circuit opened.", []string{"circuit"}, nil)
	rejectedDesc = prometheus.NewDesc("gwanmun_circuit_rejected_total",
		"Calls that the circuit refused.", []string{"circuit"}, nil)
	staleDesc = prometheus.NewDesc("gwanmun_circuit_stale_results_total",
		"Ends of calls that began in an earlier state of the circuit; they were not applied.", []string{"circuit"}, nil)
)

// collector reads the circuits when it is asked, so that what is shown was true
// at one instant, and a call pays nothing for it.
type collector struct{ gate *Gate }

// Describe names the metrics.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{stateDesc, openedDesc, rejectedDesc, staleDesc} {
		ch <- d
	}
}

// Collect sends every series, from the start.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.gate.Circuits() {
		ch <- prometheus.MustNewConstMetric(stateDesc, prometheus.GaugeValue, gauge(s.State), s.Name)
		ch <- prometheus.MustNewConstMetric(openedDesc, prometheus.CounterValue, float64(s.Opened), s.Name)
		ch <- prometheus.MustNewConstMetric(rejectedDesc, prometheus.CounterValue, float64(s.Rejected), s.Name)
		ch <- prometheus.MustNewConstMetric(staleDesc, prometheus.CounterValue, float64(s.Stale), s.Name)
	}
}

// gauge is the number of a state in gwanmun_circuit_state.
func gauge(s State) float64 {
	switch s {
	case Open:
		return 1
	case HalfOpen:
		return 2
	default:
		return 0
	}
}
