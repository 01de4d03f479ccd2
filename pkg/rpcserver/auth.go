package rpcserver

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1alpha"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/reload"
)

// foreignRoles are what gRPC's own services ask of a caller: health is open.
var foreignRoles = map[string]access.Roles{
	grpc_reflection_v1.ServerReflection_ServiceDesc.ServiceName:      access.Of(access.RoleOps),
	grpc_reflection_v1alpha.ServerReflection_ServiceDesc.ServiceName: access.Of(access.RoleOps),
}

const openService = "grpc.health.v1.Health"

var _ = grpc_health_v1.Health_ServiceDesc // whose name that is

// door lets calls in: those of clients who show a key, may call the method, and
// keep to their limits.
type door struct {
	// clients is nil where nobody has to say who he is.
	clients *reload.Files[*access.Directory]
	meter   *access.Meter

	consumed, rejected *prometheus.CounterVec
	// let are the consumed of those who are known from the start, held.
	let     map[ledger.ClientID]prometheus.Counter
	refused *prometheus.CounterVec
}

func newDoor(o *Options) (*door, error) {
	counter := func(name, help, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
	}
	d := &door{
		meter:    access.NewMeter(o.Flags.limits(), time.Now),
		consumed: counter("gwanmun_ratelimit_consumed_total", "Calls that were within their client's limits.", "client"),
		rejected: counter("gwanmun_ratelimit_rejected_total", "Calls that were refused because their client had reached a limit.", "client"),
		refused:  counter("gwanmun_access_refused_total", "Calls that were refused for want of a known key or of a role.", "reason"),
	}
	for _, reason := range []ledger.Reason{ledger.ReasonUnauthenticated, ledger.ReasonPermissionDenied} {
		d.refused.WithLabelValues(reason.String())
	}
	if o.Flags.ClientsFile == "" {
		d.known(access.Everyone().ID)
		return d, nil
	}
	var err error
	d.clients, err = reload.Open(reload.Options{Name: "clients-file", Logger: o.Logger, Now: time.Now},
		func() (*access.Directory, error) { return access.Read(o.Flags.ClientsFile) }, o.Flags.ClientsFile)
	if err != nil {
		return nil, usageError{err}
	}
	d.known(d.clients.Get().IDs()...)
	return d, nil
}

// known gives clients their series from the start.
func (d *door) known(ids ...ledger.ClientID) {
	d.let = make(map[ledger.ClientID]prometheus.Counter, len(ids))
	for _, id := range ids {
		d.let[id] = d.consumed.WithLabelValues(string(id))
		d.rejected.WithLabelValues(string(id))
	}
}

// enter lets a call in, which leave ends, or says why not.
func (d *door) enter(ctx context.Context, c *call) (leave func(), err error) {
	if err := d.identify(ctx, c); err != nil {
		return nil, err
	}
	if c.method.foreign {
		return func() {}, nil
	}
	leave, wait, ok := d.meter.Begin(c.client.ID)
	if !ok {
		d.rejected.WithLabelValues(string(c.client.ID)).Inc()
		return nil, &ledger.Refusal{Reason: ledger.ReasonRateLimited, RetryAfter: wait}
	}
	let, held := d.let[c.client.ID]
	if !held { // the clients' file was read anew
		let = d.consumed.WithLabelValues(string(c.client.ID))
	}
	let.Inc()
	return leave, nil
}

// identify finds out who calls, and whether he may call this.
func (d *door) identify(ctx context.Context, c *call) error {
	if d.clients == nil {
		c.client = access.Everyone()
		return nil
	}
	if c.method.open {
		return nil
	}
	key, err := keyOf(ctx)
	if err != nil {
		return d.refuse(ledger.ReasonUnauthenticated, err)
	}
	client, known := d.clients.Get().Find(key)
	if !known {
		return d.refuse(ledger.ReasonUnauthenticated, errUnknownKey)
	}
	c.client = client
	if !client.Roles.Meets(c.method.roles) {
		return d.refuse(ledger.ReasonPermissionDenied, errNoRole)
	}
	return nil
}

func (d *door) refuse(reason ledger.Reason, why error) error {
	d.refused.WithLabelValues(reason.String()).Inc()
	return &ledger.Refusal{Reason: reason, Err: why}
}

var (
	errNoKey      = errors.New("no key was shown")
	errManyKeys   = errors.New("more than one key was shown")
	errUnknownKey = errors.New("nobody has this key")
	errNoRole     = errors.New("the client has none of the method's roles")
)

// The headers in which a key is shown.
const (
	authorizationHeader = "authorization"
	keyHeader           = "x-api-key"
	bearer              = "bearer "
)

// keyOf is the one key that a call shows.
func keyOf(ctx context.Context) (string, error) {
	keys := metadata.ValueFromIncomingContext(ctx, keyHeader)
	for _, value := range metadata.ValueFromIncomingContext(ctx, authorizationHeader) {
		if len(value) < len(bearer) || !strings.EqualFold(value[:len(bearer)], bearer) {
			return "", errNoKey
		}
		keys = append(keys, value[len(bearer):])
	}
	switch {
	case len(keys) == 0 || keys[0] == "":
		return "", errNoKey
	case len(keys) > 1:
		return "", errManyKeys
	default:
		return keys[0], nil
	}
}

func (d *door) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	leave, err := d.enter(stream.Context(), callOf(stream.Context()))
	if err != nil {
		return err
	}
	defer leave()
	return next(srv, stream)
}
