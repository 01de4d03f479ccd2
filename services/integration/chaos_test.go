package integration

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	simulatorv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"

	"github.com/gwanmun/gwanmun/pkg/postgrestest"
	"github.com/gwanmun/gwanmun/services/simulation/audit"
)

var (
	chaosFor  = flag.Duration("chaos.for", time.Minute, "how long TestChaos lets things happen on PostgreSQL; on SQLite half as long")
	chaosOn   = flag.String("chaos.on", "", "the ledger on which TestChaos plays, postgresql or sqlite; unset, on both at a time")
	chaosSeed = flag.Uint64("chaos.seed", 0, "what TestChaos draws its troubles from; 0 takes another one each time")
)

// chaosCallers is how many callers pay while things happen.
const chaosCallers = 16

// The time limits of the services in chaos: what is abandoned is adopted soon,
// since waiting for it is what a run mostly does.
const (
	chaosDeadline   = 3 * time.Second
	chaosSendWindow = 2 * time.Second
	chaosMargin     = 500 * time.Millisecond
	chaosSweep      = 500 * time.Millisecond

	// chaosBound is P4 for what a process that was killed left REQUESTED in the
	// last moment: it is adopted first. A machine that is busy with other things,
	// and binaries under the race detector, may take twice that.
	chaosBound = 2 * (chaosDeadline + chaosSendWindow + chaosMargin + 2*chaosSweep + 10*time.Second)
)

var (
	chaosPayment = []string{
		"--read-timeout=1s", "--deadline=" + chaosDeadline.String(), "--send-window=" + chaosSendWindow.String(),
		"--adopt-margin=" + chaosMargin.String(), "--shutdown-timeout=8s",
	}
	// chaosShy has a circuit that opens when the core is gone, and soon tries.
	chaosShy        = []string{"--circuit-mode=consecutive", "--circuit-failures=8", "--circuit-open-wait=500ms"}
	chaosReconciler = []string{
		"--read-timeout=1s", "--connect-timeout=1s", "--sweep-interval=" + chaosSweep.String(), "--shutdown-timeout=8s",
	}
	chaosCore = []string{"--late-answer=1500ms"}
)

// TestChaos lets callers pay, who call again with the same key, over all
// instances, while services are killed, paused, stopped and started, the core
// and the database too, as a seed has it. When it is over everything becomes
// final by itself, and both books agree with each other. Then the auditor of the
// simulation is told the whole run, moment by moment: each row as the database wrote
// it, each frame, each entry of the core, and all that any caller was ever told.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Run("postgresql, two payment services", func(t *testing.T) {
		t.Parallel()
		chaosIsOn(t, "postgresql")
		cluster := postgrestest.Own(t)
		newChaos(t, onPostgreSQL(cluster.DSN()), cluster, seed).play(2, *chaosFor)
	})
	t.Run("sqlite, one payment service", func(t *testing.T) {
		t.Parallel()
		chaosIsOn(t, "sqlite")
		newChaos(t, newSQLite(t), nil, seed).play(1, *chaosFor/2)
	})
}

// chaosIsOn skips a run on a ledger that was not asked for.
func chaosIsOn(t *testing.T, kind string) {
	t.Helper()
	if *chaosOn != "" && *chaosOn != kind {
		t.Skipf("-chaos.on=%s", *chaosOn)
	}
}

// chaos is one run.
type chaos struct {
	*stack

	t    *testing.T
	rng  *rand.Rand // of the troubles
	seed uint64
	// cluster is the database's server; nil for SQLite.
	cluster *postgrestest.Cluster

	corePost, serverPost  *post
	payments, reconcilers []*post
	deck                  []trouble
	reliefs               []relief
	begun                 map[string]int

	quit    chan struct{}
	callers sync.WaitGroup
	heard   hearsay

	// day is what the auditor is told, tap writes into it what is on the wire.
	day audit.Transcript
	tap *tap
	// everyone is every process of ours that there was, but for the core.
	everyone []*instance
	// opened are the accounts as they were before the first call.
	opened          map[string]*simulatorv1.Account
	beganAt, calmAt time.Time
}

func newChaos(t *testing.T, db *database, cluster *postgrestest.Cluster, seed uint64) *chaos {
	t.Helper()
	c := &chaos{
		stack: newStack(t, db, chaosCore...), t: t, rng: rand.New(rand.NewPCG(seed, 0)), seed: seed, cluster: cluster,
		corePost: &post{name: "the core"}, serverPost: &post{name: "the database"}, begun: map[string]int{}, quit: make(chan struct{}),
	}
	c.core.dirty, c.lossy = true, true
	c.tap = newTap(t, c.wire.address, &c.day)
	return c
}

// play is a whole run, with so many payment services and two reconcilers.
func (c *chaos) play(services int, howLong time.Duration) {
	c.t.Helper()
	c.t.Logf("%s of -chaos.for=%s -chaos.seed=%d", howLong, *chaosFor, c.seed)
	for i := range services {
		flags := chaosPayment
		if i == 1 {
			flags = override(chaosPayment, chaosShy)
		}
		c.payments = append(c.payments, c.newPost(fmt.Sprintf("payment %d", i+1), func() *instance { return c.newPayment(flags) }))
	}
	c.begin()
	for i := range 2 {
		c.reconcilers = append(c.reconcilers, c.newPost(fmt.Sprintf("reconciler %d", i+1), c.newReconciler))
	}
	for i := range chaosCallers {
		caller := &caller{chaos: c, number: i, rng: rand.New(rand.NewPCG(c.seed, uint64(i)+1))}
		c.callers.Go(caller.run)
	}
	hush := sync.OnceFunc(func() {
		close(c.quit)
		c.callers.Wait()
	})
	c.t.Cleanup(hush)

	c.rage(howLong)
	c.calm()
	hush()
	c.calmAt = time.Now()
	judge := c.payments[0].who().payment
	judge.settled(c.t, 0)
	c.t.Logf("final after %s; happened: %v; told: %v", time.Since(c.calmAt).Round(time.Millisecond), c.begun, c.heard.counts())
	c.callAgain()
	c.judge(c.audit(c.t, judge))
}

// begin begins to write down what happens, when the first payment service stands.
func (c *chaos) begin() {
	c.t.Helper()
	c.payments[0].who().awaitReady(c.t)
	c.db.watch(c.t)
	c.opened, c.beganAt = c.accounts(), time.Now()
}

// callAgain makes some calls once more on every payment service, now that all is
// final and well.
func (c *chaos) callAgain() {
	for i, call := range c.heard.last(20) {
		for _, p := range c.payments {
			ctx, cancel := context.WithTimeout(context.Background(), callFor)
			a := c.payAt(ctx, p.who(), call)
			cancel()
			if a.info == nil && a.err != nil {
				c.t.Errorf("call %d again: %s", i, a)
			}
		}
	}
}
