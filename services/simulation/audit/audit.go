// Package audit looks on while a bank day is played and believes nobody: it hears
// every frame that leaves, every entry of the core's journal, every row as it is
// committed and all that a caller is told, each at its moment, and says what of it
// breaks a promise (DESIGN §1).
//
// It shares no code with what it judges, but for the words of the domain: rows,
// statuses, identifiers. What a legal move is, what evidence is worth and when a
// key is free it knows by itself. Whoever plays the day must tell it of a thing
// when that becomes true, not when someone hears of it: a row at its commit, a
// frame when its first byte leaves, an entry when it is in the core's book. Who
// learns of a day only when it is over, from books and logs of several hands, puts
// it together in a Transcript.
package audit

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// Options are what the auditor must know of the day.
type Options struct {
	// KeyLife is how long a key stays bound at least.
	KeyLife time.Duration
	// Accounts are the account numbers of the day, 14 digits each: none may be
	// found in anything that is written.
	Accounts []string
	// Reasons are all that a caller of the day may be refused for; nil for any.
	Reasons []ledger.Reason
	// Doubles is true where the wire may deliver a frame twice.
	Doubles bool
	// Now is the clock of violations.
	Now func() time.Time
}

// Violation is a promise that was broken.
type Violation struct {
	At time.Time
	// Rule is which promise, in a few words that never change.
	Rule string
	// ID is the transaction; empty where it is about none.
	ID tranid.ID
	// What is what happened.
	What string
}

// String is one line.
func (v Violation) String() string {
	return fmt.Sprintf("%s: %s %s", v.Rule, v.ID, v.What)
}

// maxViolations is how many are kept: one is enough, and a broken house has no end
// of them.
const maxViolations = 100

// Auditor keeps what it was told of a day. It is safe for concurrent use, and waits
// for nothing.
type Auditor struct {
	opts Options

	mu         sync.Mutex
	violations []Violation
	payments   map[tranid.ID]*payment
	keys       map[key][]*payment
	orders     map[order][]*payment
	balances   map[string][]balance
	answers    map[key]answer
	sequence   int64
}

// payment is all that is known of a transaction, from all sides.
type payment struct {
	id tranid.ID
	// row and events are as committed last; seen is whether there is a row.
	seen   bool
	row    ledger.Transaction
	events []ledger.Event
	// bound is when its key was bound to it, by the database's clock; zero for a
	// row that binds none.
	bound time.Time
	// frames is how many 0100 left, debits and cancels what the core did.
	frames, debits, cancels int
	fenced                  bool
	// entries are those of the core's journal, by message type.
	entries map[string]int
	// unsent is true once a caller was told that nothing of it left.
	unsent bool
	// behind is true for an inquiry of which a caller was told: its row may come later.
	behind bool
	// said is the last final state that a caller was told; zero for none.
	said standing
}

// standing is where a row stands, and on what evidence.
type standing struct {
	status   ledger.Status
	evidence ledger.Evidence
}

func (p *payment) stands() bool { return p.debits > p.cancels }

type key struct {
	client ledger.ClientID
	key    ledger.IdempotencyKey
}

type order struct {
	client ledger.ClientID
	order  ledger.OrderID
}

// New returns an Auditor of a day that begins.
func New(o Options) *Auditor {
	return &Auditor{
		opts: o, payments: map[tranid.ID]*payment{}, keys: map[key][]*payment{}, orders: map[order][]*payment{},
		balances: map[string][]balance{}, answers: map[key]answer{},
	}
}

// Violations are what was found so far, in the order in which it happened.
func (a *Auditor) Violations() []Violation {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Violation(nil), a.violations...)
}

// Text is told all that is written anywhere: logs, errors, columns. It is there
// for the account numbers that must not be in it.
func (a *Auditor) Text(where, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.text(where, "", text)
}

func (a *Auditor) text(where string, id tranid.ID, text string) {
	for _, digits := range a.opts.Accounts {
		if strings.Contains(text, digits) {
			a.broken("no account number is written", id, "one is in %s", where)
		}
	}
}

// of is the payment with an ID, known or not. The caller holds mu.
func (a *Auditor) of(id tranid.ID) *payment {
	p := a.payments[id]
	if p == nil {
		p = &payment{id: id, entries: map[string]int{}}
		a.payments[id] = p
	}
	return p
}

// broken keeps a violation, the first of a rule and a transaction. The caller holds
// mu.
func (a *Auditor) broken(rule string, id tranid.ID, format string, args ...any) {
	known := func(v Violation) bool { return v.Rule == rule && v.ID == id }
	if len(a.violations) < maxViolations && !slices.ContainsFunc(a.violations, known) {
		a.violations = append(a.violations, Violation{At: a.opts.Now(), Rule: rule, ID: id, What: fmt.Sprintf(format, args...)})
	}
}
