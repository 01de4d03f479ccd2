package integration

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/postgrestest"
)

var (
	chaosFor  = flag.Duration("chaos.for", 20*time.Second, "how long TestChaos lets things happen")
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
// final by itself, and both books agree with each other and with all that any
// caller was ever told.
func TestChaos(t *testing.T) {
	t.Parallel()
	seed := *chaosSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Run("postgresql, two payment services", func(t *testing.T) {
		t.Parallel()
		cluster := postgrestest.Own(t)
		newChaos(t, onPostgreSQL(cluster.DSN()), cluster, seed).play(2)
	})
	t.Run("sqlite, one payment service", func(t *testing.T) {
		t.Parallel()
		newChaos(t, newSQLite(t), nil, seed).play(1)
	})
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
}

func newChaos(t *testing.T, db *database, cluster *postgrestest.Cluster, seed uint64) *chaos {
	t.Helper()
	t.Logf("-chaos.for=%s -chaos.seed=%d", *chaosFor, seed)
	c := &chaos{
		stack: newStack(t, db, chaosCore...), t: t, rng: rand.New(rand.NewPCG(seed, 0)), seed: seed, cluster: cluster,
		corePost: &post{name: "the core"}, serverPost: &post{name: "the database"}, begun: map[string]int{}, quit: make(chan struct{}),
	}
	c.core.dirty, c.lossy = true, true
	return c
}

// play is a whole run, with so many payment services and two reconcilers.
func (c *chaos) play(services int) {
	c.t.Helper()
	for i := range services {
		flags := chaosPayment
		if i == 1 {
			flags = override(chaosPayment, chaosShy)
		}
		c.payments = append(c.payments, c.newPost(fmt.Sprintf("payment %d", i+1), func() *instance { return c.newPayment(flags) }))
	}
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

	c.rage(*chaosFor)
	c.calm()
	hush()
	begin := time.Now()
	judge := c.payments[0].who().payment
	judge.settled(c.t, 0)
	if took := time.Since(begin); took > chaosBound {
		c.t.Errorf("everything is final only after %s, want %s", took, chaosBound)
	}
	c.t.Logf("final after %s; happened: %v; told: %v", time.Since(begin).Round(time.Millisecond), c.begun, c.heard.counts())
	c.callAgain()
	c.judge(c.audit(c.t, judge))
}

// callAgain makes some calls once more on every payment service, now that all is
// final and well.
func (c *chaos) callAgain() {
	for i, call := range c.heard.last(20) {
		for _, p := range c.payments {
			ctx, cancel := context.WithTimeout(context.Background(), callFor)
			who := p.who()
			a := who.payment.payWith(ctx, c.t, call)
			cancel()
			c.heard.note(heard{rpc: create, key: call.GetIdempotencyKey(), order: call.GetOrderId(), by: who, told: a})
			if a.info == nil && a.err != nil {
				c.t.Errorf("call %d again: %s", i, a)
			}
		}
	}
}
