package main

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// The cores, as --cores names them.
const (
	instantCore = "instant"
	slowCore    = "slow"
	bankCore    = "corebank"
)

// core is what both sides speak to, a process of its own.
type core struct {
	addr string
	// answers is how it answers, for the table.
	answers string
	// flag is what it says of every payment, to an inquiry as to a net cancel.
	flag string
	// ends is what then becomes of one that was UNKNOWN.
	ends outcome
	// tell says how many requests came since it was told to forget, and how long it
	// was from the first to the last.
	tell func(ctx context.Context, forget bool) (requests int64, took time.Duration, err error)
	stop func() error

	// numbers is how many IDs were given out.
	numbers atomic.Int64
}

// outcome is how a payment ends.
type outcome struct {
	status   ledger.Status
	evidence ledger.Evidence
}

func (o outcome) String() string { return o.status.String() + " by " + o.evidence.String() }

// startCore starts the core of that name. What it keeps is in dir.
func startCore(ctx context.Context, cfg *config, name, dir string) (*core, error) {
	switch name {
	case instantCore:
		return startArtificial(ctx, 0)
	case slowCore:
		return startArtificial(ctx, cfg.Takes)
	case bankCore:
		return startBank(ctx, cfg.Corebank, filepath.Join(dir, "core"))
	default:
		return nil, fmt.Errorf("there is no core %q", name)
	}
}

// fresh is an ID that the core has never seen.
func (c *core) fresh() tranid.ID { return transactionID(c.numbers.Add(1)) }

// transactionID is one of a day of long ago.
func transactionID(number int64) tranid.ID {
	return tranid.New(tranid.DateOf(time.Date(2026, 1, 5, 3, 0, 0, 0, time.UTC)), number)
}
