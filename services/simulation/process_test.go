package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gwanmun/gwanmun/pkg/corelink"
	"github.com/gwanmun/gwanmun/pkg/corelink/listing"
	"github.com/gwanmun/gwanmun/pkg/resilience"
	"github.com/gwanmun/gwanmun/pkg/tranid"
	"github.com/gwanmun/gwanmun/services/payment/payment"
	"github.com/gwanmun/gwanmun/services/reconciler/keep"
	"github.com/gwanmun/gwanmun/services/reconciler/resolve"
	"github.com/gwanmun/gwanmun/services/reconciler/settlement"
	"github.com/gwanmun/gwanmun/services/simulation/audit"
)

// clock is one that may be wrong.
type clock struct{ off atomic.Int64 }

func (c *clock) skew() time.Duration { return time.Duration(c.off.Load()) }

func (c *clock) now() time.Time { return time.Now().Add(c.skew()) }

// process is one that can be killed or stopped at any moment. What it does to
// others goes through its ledger, its connections and its replies, and each of
// these asks whether it may.
type process struct {
	world *world
	slot  slot
	name  string
	dice  dice
	clock *clock
	dead  chan struct{}
	// ends is its context; kill ends it too.
	ends context.Context
	end  context.CancelFunc

	mu     sync.Mutex
	asleep chan struct{} // closed when it wakes; nil while it is awake
	conns  []*socket
	thrown map[string]int
	// told are the inquiries that were answered; lost is what it said that it does
	// not write any more, by ID, or with none.
	told []tranid.ID
	lost map[tranid.ID]bool
	// leaving is set when it was asked to end.
	leaving atomic.Bool

	core  *resilience.Gate
	links []*corelink.Link
	// One of these, by what it is.
	service  *payment.Service
	resolver *resolve.Resolver
	settler  *settlement.Service
}

// newProcess starts a process in a slot.
func newProcess(w *world, s slot, incarnation int, c *clock) *process {
	name := fmt.Sprintf("payment-%d.%d", s, incarnation)
	if int(s) >= w.plan.house.payments {
		name = fmt.Sprintf("reconciler-%d.%d", int(s)-w.plan.house.payments, incarnation)
	}
	p := &process{
		world: w, slot: s, name: name, dice: w.dice.of(name), clock: c, dead: make(chan struct{}), thrown: map[string]int{}, lost: map[tranid.ID]bool{},
	}
	p.ends, p.end = context.WithCancel(context.Background())
	p.say("", "starts")
	store, registry := newLedgerLink(p), prometheus.NewRegistry()
	logger := slog.New(&logBook{p: p})
	flags := p.linkFlags()
	metrics := corelink.NewMetrics(registry)
	link := func(name string, flags corelink.Flags, to port) *corelink.Link {
		l := corelink.New(corelink.Options{Flags: flags, Name: name, Dial: p.dialer(to), Now: c.now, Metrics: metrics})
		p.links = append(p.links, l)
		return l
	}
	request, query := p.leg(link(resilience.CoreRequest, flags, frames), 0), p.leg(link(resilience.CoreQuery, flags, frames), 1)
	listingFlags := (&listing.Flags{ListingAddr: []string{"core:9097"}}).Over(flags)
	lists := listing.New(link(listing.Pool, listingFlags, listings), listingFlags, c.now)
	p.core = resilience.New(resilience.Options{
		Flags: p.circuitFlags(), Request: request, Query: query, Now: c.now, Logger: logger, Registry: registry,
	})
	if int(s) < w.plan.house.payments {
		p.service = payment.New(payment.Options{
			Flags: payment.Flags{
				Deadline: deadline, SendWindow: sendWindow, MinDeadline: 100 * time.Millisecond, AdoptMargin: adoptMargin,
				KeyLife: w.plan.house.keyLife,
			},
			Store: store, HashKey: w.hashKey, Core: &spread{p.core, p}, Listings: lists, Now: c.now, Logger: logger, Registry: registry, Instance: name,
		})
		return p
	}
	p.reconcile(store, lists, logger, registry)
	return p
}

// The times of the house, as the binaries have them by default.
const (
	deadline    = 5 * time.Second
	sendWindow  = 2 * time.Second
	adoptMargin = 5 * time.Second
	readTimeout = 3 * time.Second
	connectTime = 2 * time.Second
	lease       = 8 * time.Second
	stopGrace   = 7 * time.Second
	shutdown    = 15 * time.Second
)

func (p *process) reconcile(store *ledgerLink, lists *listing.Client, logger *slog.Logger, registry *prometheus.Registry) {
	h := &p.world.plan.house
	jitter := p.dice.of("jitter")
	p.resolver = resolve.New(store, &spread{p.core, p}, resolve.Options{
		Flags: resolve.Flags{
			SweepInterval: h.sweep, MaxAttempts: h.maxAttempts, CoreFences: h.fences, LateWindow: h.lateWindow, Lease: lease,
		},
		ExchangeTime: connectTime + readTimeout, ReadTimeout: readTimeout, Connections: h.poolSize, StopGrace: stopGrace,
		Instance: p.name, Logger: logger, Registry: registry, Now: p.clock.now,
		// Who throws at one moment is in no order, so all get the same.
		Random: func() float64 { return jitter.nth(int(p.world.elapsed())).float() },
	})
	p.settler = settlement.New(settlement.Options{
		Store: secondLook{store}, Resolver: p.resolver, Ghosts: p.resolver.Ghosts(), Key: p.world.hashKey, Book: settlement.CoreBook(lists),
		ResolveTime: 10 * time.Second, Instance: p.name, Logger: logger, Registry: registry, Now: p.clock.now,
	})
	begun := time.Now()
	keeper := keep.New(store, keep.Options{
		Logger: logger, Registry: registry, Now: p.clock.now, Uptime: func() time.Duration { return time.Since(begun) },
	})
	p.world.run(func() { keeper.Run(p.ends) })
	p.world.run(func() { p.resolver.Run(p.ends) })
	p.world.run(func() { p.settler.Run(p.ends) })
}

func (p *process) linkFlags() corelink.Flags {
	return corelink.Flags{
		CoreAddr: []string{"core:9099"}, ReadTimeout: readTimeout, ConnectTimeout: connectTime,
		PoolSize: p.world.plan.house.poolSize, PoolWait: 500 * time.Millisecond, PoolIdleTTL: 30 * time.Second,
	}
}

func (p *process) circuitFlags() resilience.Flags {
	f := resilience.Flags{
		CircuitMode: resilience.ModeRate, CircuitWindow: 20, CircuitMinCalls: 10, CircuitRequestThreshold: 15, CircuitQueryThreshold: 20,
		CircuitFailures: 3, CircuitProbes: 1, CircuitOpenWait: p.world.plan.house.openWait, HalfopenCalls: 5, HalfopenMinCalls: 3,
		Retries: 2, RetryBackoff: 200*time.Millisecond + 1300*time.Microsecond, // 200 ms is the moment of a first inquiry too
	}
	if p.world.plan.house.consecutive {
		f.CircuitMode = resilience.ModeConsecutive
	}
	return f
}

// spread lets no two exchanges begin at one moment: what begins at one is in no
// order, and the first may take the last place.
type spread struct {
	*resilience.Gate
	p *process
}

func (s *spread) Exchange(ctx context.Context, call corelink.Call) corelink.Result {
	f := audit.FrameOf(call.Frame)
	time.Sleep(s.p.next("exchange"+f.MTI+string(f.ID)).between(time.Microsecond, 200*time.Microsecond))
	return s.Gate.Exchange(ctx, call)
}

// leg is a link whose circuit is watched.
type leg struct {
	p       *process
	link    *corelink.Link
	number  int
	circuit *audit.Circuit
}

func (p *process) leg(link *corelink.Link, number int) *leg {
	f := p.circuitFlags()
	probes := f.HalfopenCalls
	if f.CircuitMode == resilience.ModeConsecutive {
		probes = f.CircuitProbes
	}
	name := fmt.Sprintf("%s %s", p.name, []string{resilience.CoreRequest, resilience.CoreQuery}[number])
	return &leg{p: p, link: link, number: number, circuit: p.world.audit.Circuit(name, probes)}
}

// Exchange implements resilience.Exchanger.
func (l *leg) Exchange(ctx context.Context, call corelink.Call) corelink.Result {
	attempt := l.circuit.Begins(l.state())
	res := l.link.Exchange(ctx, call)
	l.circuit.Ends(attempt, l.state(), res.Answered())
	return res
}

func (l *leg) state() audit.CircuitState {
	s := l.p.core.Circuits()[l.number]
	return audit.CircuitState{HalfOpen: s.State == resilience.HalfOpen, Closed: s.State == resilience.Closed, Opened: s.Opened}
}

// awake returns when the process is not stopped. Whatever waited for that goes on at
// a moment of its own.
func (p *process) awake(die dice) {
	for {
		p.mu.Lock()
		asleep := p.asleep
		p.mu.Unlock()
		if asleep == nil {
			return
		}
		select {
		case <-asleep:
			time.Sleep(die.of("awake").between(time.Microsecond, 500*time.Microsecond))
		case <-p.dead:
			return
		}
	}
}

// sleep stops the process until then.
func (p *process) stop(until time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.asleep != nil || p.isDead() {
		return
	}
	asleep := make(chan struct{})
	p.asleep = asleep
	p.say("", "is stopped")
	time.AfterFunc(until-p.world.elapsed(), func() {
		p.say("", "wakes up")
		p.mu.Lock()
		p.asleep = nil
		p.mu.Unlock()
		close(asleep)
	})
}

func (p *process) isDead() bool {
	select {
	case <-p.dead:
		return true
	default:
		return false
	}
}

// kill ends the process: it does nothing more to anybody.
func (p *process) kill(where string) {
	p.mu.Lock()
	if p.isDead() {
		p.mu.Unlock()
		return
	}
	close(p.dead)
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	p.say("", "dies %s", where)
	p.end()
	for _, c := range conns {
		_ = c.Close()
	}
	if p.service != nil {
		p.world.run(func() {
			gone, cancel := context.WithCancel(context.Background())
			cancel()
			_ = p.service.Drain(gone) // it has lost what it lost
		})
	}
	for _, l := range p.links {
		_ = l.Close()
	}
}

// leave has the process end as it does when it is asked to: what it began comes to
// its end, or it says that it did not.
func (p *process) leave() {
	p.leaving.Store(true)
	p.say("", "is asked to end")
	if p.service == nil {
		p.end()
		time.Sleep(stopGrace)
		p.kill("after its sweep")
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), shutdown)
	defer cancel()
	err := p.service.Drain(ctx)
	if err == nil && !p.isDead() {
		p.mu.Lock()
		told, lost := p.told, p.lost
		p.mu.Unlock()
		p.world.audit.Drained(p.name, told, lost)
	}
	p.kill(fmt.Sprintf("drained: %v", err))
}

// keep remembers a connection, which ends with the process.
func (p *process) keep(s *socket) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.isDead() {
		_ = s.Close()
		return
	}
	p.conns = append(p.conns, s)
}

// next are dice for the next thing of a name.
func (p *process) next(name string) dice {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.thrown[name]++
	return p.dice.of(name).nth(p.thrown[name])
}

func (p *process) say(id tranid.ID, format string, args ...any) {
	p.world.trace.add(p.name, id, format, args...)
}

// logBook is told what a process logs, and has it looked at.
type logBook struct{ p *process }

func (*logBook) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (b *logBook) Handle(_ context.Context, r slog.Record) error {
	if r.Message == "ghost" {
		defer b.alarm(&r)
	}
	text := r.Level.String() + " " + r.Message
	var id tranid.ID
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "transaction_id" {
			id = tranid.ID(a.Value.String())
			return true
		}
		if a.Key == "run_id" { // is random
			return true
		}
		text += " " + a.String()
		return true
	})
	b.p.world.audit.Text("a log", text)
	text = runID.ReplaceAllString(text, "RUN")
	if slices.Contains(losses, r.Message) {
		b.p.mu.Lock()
		b.p.lost[id] = true
		b.p.mu.Unlock()
	}
	if r.Level > slog.LevelInfo && !b.p.isDead() {
		b.p.say(id, "says %s", text)
	}
	return nil
}

// runID is the ID of a settlement run, which is random and may be in an error.
var runID = regexp.MustCompile(`\b[A-Z2-7]{26}\b`)

// losses are how a payment service says that it does not write something any more.
var losses = []string{"belated write given up", "rows given up", "row not recorded", "rows not recorded: too many wait"}

// alarm has the auditor look whether there is a ghost.
func (b *logBook) alarm(r *slog.Record) {
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "transaction_id" {
			b.p.world.audit.Alarm(tranid.ID(a.Value.String()))
		}
		return true
	})
}

func (b *logBook) WithAttrs([]slog.Attr) slog.Handler { return b }
func (b *logBook) WithGroup(string) slog.Handler      { return b }
