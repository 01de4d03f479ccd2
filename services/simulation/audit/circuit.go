package audit

// Circuit is a circuit of one process, seen from the attempts that it lets through.
// It knows that a half-open circuit closes and opens by its own probes alone, and
// never lets out more of them than it may.
type Circuit struct {
	a      *Auditor
	name   string
	probes int

	at                          CircuitState
	generation                  int
	inFlight, answered, dropped int
}

// CircuitState is what a circuit says of itself.
type CircuitState struct {
	HalfOpen, Closed bool
	// Opened is how often it opened.
	Opened uint64
}

// Attempt is one that is under way.
type Attempt struct{ generation int }

// Circuit is told of a circuit that lets out so many probes at most.
func (a *Auditor) Circuit(name string, probes int) *Circuit {
	return &Circuit{a: a, name: name, probes: probes, at: CircuitState{Closed: true}}
}

// Begins is told that an attempt was let through, and the state after that.
func (c *Circuit) Begins(now CircuitState) Attempt {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	c.look(now)
	if now.HalfOpen {
		if c.inFlight++; c.inFlight > c.probes {
			c.a.broken("half-open lets out no more probes than it may", "", "%s: %d of %d", c.name, c.inFlight, c.probes)
		}
	}
	return Attempt{c.generation}
}

// Ends is told how an attempt ended, and the state before that is applied.
func (c *Circuit) Ends(attempt Attempt, now CircuitState, answered bool) {
	c.a.mu.Lock()
	defer c.a.mu.Unlock()
	c.look(now)
	if !now.HalfOpen || attempt.generation != c.generation {
		return
	}
	c.inFlight--
	if answered {
		c.answered++
	} else {
		c.dropped++
	}
}

// look takes note of a state that is another.
func (c *Circuit) look(now CircuitState) {
	if now == c.at {
		return
	}
	if c.at.HalfOpen {
		switch {
		case now.Closed && now.Opened == c.at.Opened && c.answered == 0:
			c.a.broken("late results of an earlier state are ignored", "", "%s closed, and no probe of it was answered", c.name)
		case now.Opened != c.at.Opened && c.dropped == 0 && !now.Closed:
			c.a.broken("late results of an earlier state are ignored", "", "%s opened, and no probe of it failed", c.name)
		}
	}
	c.at = now
	c.generation++
	c.inFlight, c.answered, c.dropped = 0, 0, 0
}
