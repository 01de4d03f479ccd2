package rpcserver

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

const (
	// adminTimeout bounds everything about a request to the admin port.
	adminTimeout = 10 * time.Second
	// adminHeaders is the most that its headers may hold, in bytes.
	adminHeaders = 8 << 10
	// maxScrapes is how many scrapes may run at once.
	maxScrapes = 4
)

// newAdmin serves /livez, /readyz and /metrics, and nothing else.
func (s *Server) newAdmin() *http.Server {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { say(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", s.readyz)
	errorLog := slog.NewLogLogger(s.logger.Handler(), slog.LevelWarn)
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		ErrorLog:            errorLog,
		ErrorHandling:       promhttp.ContinueOnError,
		EnableOpenMetrics:   true,
		MaxRequestsInFlight: maxScrapes,
		Timeout:             adminTimeout,
	}))
	return &http.Server{
		Handler:           guarded(mux),
		ErrorLog:          errorLog,
		ReadHeaderTimeout: adminTimeout,
		ReadTimeout:       adminTimeout,
		WriteTimeout:      2 * adminTimeout,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    adminHeaders,
	}
}

// guarded tells a browser that strays here to make nothing of what it gets.
func guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// readyz asks now. What is wrong is in the log; a probe is told only that
// something is.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.isStopping():
		say(w, http.StatusServiceUnavailable, "stopping")
	case s.ask(r.Context()) != nil:
		say(w, http.StatusServiceUnavailable, "not ready")
	default:
		say(w, http.StatusOK, "ok")
	}
}

// ask asks whether the service is ready, for at most readyTimeout.
func (s *Server) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return s.ready(ctx)
}

func say(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n") // a probe that hung up needs no answer
}
