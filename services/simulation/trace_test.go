package simulation

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// moment is one thing that happened.
type moment struct {
	at   time.Duration
	who  string
	what string
	id   tranid.ID
}

// trace is what happened in a day, by virtual time.
type trace struct {
	start time.Time

	mu  sync.Mutex
	all []moment
}

func (t *trace) add(who string, id tranid.ID, format string, args ...any) {
	what := format
	if len(args) > 0 {
		what = fmt.Sprintf(format, args...)
	}
	at := time.Since(t.start)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, moment{at, who, what, id})
}

// moments are all of them in their order. What happened in one nanosecond is in the
// order of its words.
func (t *trace) moments() []moment {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := slices.Clone(t.all)
	slices.SortStableFunc(all, func(a, b moment) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.who, b.who), cmp.Compare(a.id, b.id), cmp.Compare(a.what, b.what))
	})
	return all
}

// hash is equal for days in which the same happened.
func (t *trace) hash() uint64 {
	h := fnv.New64a()
	for _, m := range t.moments() {
		_, _ = fmt.Fprintf(h, "%d %s %s %s\n", m.at, m.who, m.id, m.what)
	}
	return h.Sum64()
}

// write tells the day; about some transactions only, if any are named.
func (t *trace) write(w io.Writer, about map[tranid.ID]bool) {
	for _, m := range t.moments() {
		if len(about) > 0 && m.id != "" && !about[m.id] {
			continue
		}
		_, _ = fmt.Fprintln(w, strings.TrimRight(fmt.Sprintf("%14s  %-15s %-22s  %s", fmt.Sprintf("%.9fs", m.at.Seconds()), m.who, m.id, m.what), " "))
	}
}
