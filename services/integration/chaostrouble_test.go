package integration

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// instance is one process in its post.
type instance struct {
	*process

	payment *payment // nil for a reconciler
	// lossy says that rows which it would have written behind their answers may
	// be lost: it was killed, or said by its exit code that it lost some.
	lossy atomic.Bool
	// left is when it had ended in order; zero if it has not.
	left time.Time
}

// post is the place of one instance, whoever is there now. One who was killed
// stays until the next one comes.
type post struct {
	name  string
	start func() *instance
	// troubled says that something happens there already.
	troubled bool

	mu  sync.Mutex
	now *instance
}

func (c *chaos) newPost(name string, start func() *instance) *post {
	return &post{name: name, start: start, now: start()}
}

func (p *post) who() *instance {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.now
}

func (p *post) fill() {
	next := p.start()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = next
}

func (c *chaos) newPayment(flags []string) *instance {
	c.wake()
	p := c.spawnPayment(c.t, c.tapped(flags)...)
	p.dirty = true // a database that goes away is an ERROR here and there
	return c.add(&instance{process: p.process, payment: p})
}

func (c *chaos) newReconciler() *instance {
	c.wake()
	r := c.spawnReconciler(c.t, c.tapped(chaosReconciler)...)
	r.dirty = true
	return c.add(&instance{process: r.process})
}

// tapped has a service go to the core where the auditor hears it.
func (c *chaos) tapped(flags []string) []string {
	return override(flags, []string{"--core-addr=" + c.tap.address})
}

func (c *chaos) add(who *instance) *instance {
	c.everyone = append(c.everyone, who)
	return who
}

// trouble is a thing that can happen.
type trouble struct {
	name string
	// where are the posts at which it can.
	where []*post
	// begin lets it happen, and returns what ends it and after how long at most;
	// nil if it is over.
	begin func(at *post) (end func(), within time.Duration)
}

// pausing is what pauses are called.
const pausing = "pause"

// relief ends a trouble.
type relief struct {
	due time.Time
	at  *post
	end func()
	// wakes says that it is a pause which ends.
	wakes bool
}

// troubles is all that can happen. A thing that occurs twice happens twice as
// often.
func (c *chaos) troubles() []trouble {
	cores, servers := []*post{c.corePost}, []*post{c.serverPost}
	all := []trouble{
		{"kill", c.payments, c.kill},
		{"kill", c.payments, c.kill},
		{"kill", c.reconcilers, c.kill},
		{pausing, c.payments, c.pause},
		{pausing, c.payments, c.pause},
		{pausing, c.reconcilers, c.pause},
		{"stop", c.payments, c.stop},
		{"stop", c.reconcilers, c.stop},
		{"kill", cores, c.killCore},
		{pausing, cores, c.pauseCore},
	}
	if c.cluster == nil {
		return all
	}
	return append(all, []trouble{
		{"cut off every session of", servers, c.cutOff},
		{"cut off every session of", servers, c.cutOff},
		{"stall", servers, func(*post) (func(), time.Duration) {
			c.cluster.Stall()
			return c.cluster.Resume, 3 * time.Second
		}},
		{"kill a process of", servers, c.killServer},
		{"restart", servers, func(*post) (func(), time.Duration) {
			c.cluster.Restart()
			return nil, 0
		}},
	}...)
}

// rage lets one thing after the other happen, each of all before any a second
// time, and ends each in its time.
func (c *chaos) rage(howLong time.Duration) {
	begin := time.Now()
	for time.Since(begin) < howLong {
		if len(c.deck) == 0 {
			c.deck = c.troubles()
			c.rng.Shuffle(len(c.deck), func(i, j int) { c.deck[i], c.deck[j] = c.deck[j], c.deck[i] })
		}
		next := c.deck[0]
		c.deck = c.deck[1:]
		c.happen(next, begin)
		closedWithin(c.quit, c.between(200*time.Millisecond, 1500*time.Millisecond))
		now := time.Now()
		c.relieve(func(r relief) bool { return r.due.Before(now) })
	}
}

// between draws a time.
func (c *chaos) between(least, most time.Duration) time.Duration {
	return least + time.Duration(c.rng.Int64N(int64(most-least)))
}

// happen lets a trouble begin, at a post that has none.
func (c *chaos) happen(next trouble, begin time.Time) {
	free := slices.DeleteFunc(slices.Clone(next.where), func(p *post) bool { return p.troubled })
	if len(free) == 0 {
		return
	}
	at := free[c.rng.IntN(len(free))]
	name := next.name + " " + at.name
	c.t.Logf("after %s: %s", time.Since(begin).Round(time.Millisecond), name)
	c.begun[name]++
	end, within := next.begin(at)
	if end == nil {
		return
	}
	at.troubled = true
	c.reliefs = append(c.reliefs, relief{due: time.Now().Add(c.between(within/10, within)), at: at, end: end, wakes: next.name == pausing})
}

// relieve ends the troubles that are due, pauses first: who is paused may keep
// others from starting.
func (c *chaos) relieve(due func(r relief) bool) {
	var ending []relief
	c.reliefs = slices.DeleteFunc(c.reliefs, func(r relief) bool {
		if due(r) {
			ending = append(ending, r)
		}
		return due(r)
	})
	slices.SortStableFunc(ending, func(a, b relief) int {
		switch {
		case a.wakes == b.wakes:
			return 0
		case a.wakes:
			return -1
		default:
			return 1
		}
	})
	for _, r := range ending {
		r.end()
		r.at.troubled = false
	}
}

// wake ends every pause where one who was paused may have the one lock that there
// is: whoever starts would wait for it.
func (c *chaos) wake() {
	if c.db.kind == "sqlite" {
		c.relieve(func(r relief) bool { return r.wakes })
	}
}

// calm ends all troubles, and waits until everybody is well.
func (c *chaos) calm() {
	c.relieve(func(relief) bool { return true })
	c.core.awaitReady(c.t)
	for _, p := range slices.Concat(c.payments, c.reconcilers) {
		p.who().awaitReady(c.t)
	}
}

// kill ends an instance as kill -9 does. Another one comes in its place.
func (c *chaos) kill(at *post) (end func(), within time.Duration) {
	who := at.who()
	who.lossy.Store(true)
	who.kill()
	return at.fill, time.Second
}

// pause stops an instance with SIGSTOP, at times for longer than its rows are its
// own, and whatever lock it holds.
func (c *chaos) pause(at *post) (end func(), within time.Duration) {
	who := at.who()
	who.stop(c.t)
	return func() { who.signal(syscall.SIGCONT) }, 7 * time.Second
}

// stop asks an instance to stop, which it does in its time, whatever else
// happens. Another one comes in its place.
func (c *chaos) stop(at *post) (end func(), within time.Duration) {
	who := at.who()
	who.gone = true
	who.signal(syscall.SIGTERM)
	return func() {
		if code := who.wait(c.t, stopWithin); code != 0 {
			who.lossy.Store(true)
		}
		who.left = time.Now()
		at.fill()
	}, time.Second
}

func (c *chaos) cutOff(*post) (end func(), within time.Duration) {
	c.cluster.CutOff(c.db.dsn)
	return nil, 0
}

// killServer ends a process of PostgreSQL as kill -9 does. The server then ends all
// others at once, and recovers what was committed from its log.
func (c *chaos) killServer(*post) (end func(), within time.Duration) {
	pool := c.db.open(c.t)
	defer func() { _ = pool.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var victim int
	err := pool.QueryRowContext(ctx, `SELECT coalesce(min(pid), pg_backend_pid()) FROM pg_stat_activity
		WHERE datname = current_database() AND pid <> pg_backend_pid()`).Scan(&victim)
	if err != nil {
		c.t.Fatalf("look for a process to kill: %v", err)
	}
	if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
		c.t.Fatalf("kill a process of PostgreSQL: %v", err)
	}
	eventually(c.t, "PostgreSQL has recovered", pool.PingContext)
	return nil, 0
}

func (c *chaos) killCore(*post) (end func(), within time.Duration) {
	c.core.kill()
	return func() {
		c.startCore(c.t, chaosCore...)
		c.core.dirty = true
	}, 2 * time.Second
}

func (c *chaos) pauseCore(*post) (end func(), within time.Duration) {
	core := c.core
	core.stop(c.t)
	return func() { core.signal(syscall.SIGCONT) }, 3 * time.Second
}
