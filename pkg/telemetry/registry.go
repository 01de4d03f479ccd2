package telemetry

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// version is set by the linker: -X .../pkg/telemetry.version=v1.2.3.
var version string

// Version is the version that the binary was built as: the linker's, else the
// module's, else `devel`.
func Version() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

// NewRegistry returns a registry that already shows the process, the Go runtime
// and gwanmun_build_info.
func NewRegistry() *prometheus.Registry {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "gwanmun_build_info",
		Help:        "Always 1; the labels say what is running.",
		ConstLabels: prometheus.Labels{"version": Version(), "go_version": runtime.Version()},
	})
	build.Set(1)

	registry := prometheus.NewRegistry()
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		build,
	)
	return registry
}
