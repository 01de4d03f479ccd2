package simulator

import (
	"sort"
	"time"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// cause is why a balance changed.
type cause uint8

const (
	causeOpened cause = iota + 1
	causeSet
	causeDebit
	causeCancel
)

// movement is what came into an account or went out of it.
type movement struct {
	day    tranid.Date
	cause  cause
	change account.Won // below zero for what went out
	after  account.Won
}

// blockSize is how many records of a listing stand together: what has to be
// moved when one comes between others, and the most that is copied at once.
const blockSize = 512

// statement is all movements of an account, oldest first, in blocks of which
// all but the last are full.
type statement struct{ blocks [][]movement }

func (s *statement) count() int {
	if len(s.blocks) == 0 {
		return 0
	}
	last := len(s.blocks) - 1
	return last*blockSize + len(s.blocks[last])
}

func (s *statement) at(i int) movement { return s.blocks[i/blockSize][i%blockSize] }

// add puts a movement behind all others. Days never descend: after the bank's
// clock was set back, movements are of the latest day that there was, so that a
// statement of some days is one piece.
func (s *statement) add(m movement) {
	if n := s.count(); n > 0 && m.day.Start().Before(s.at(n-1).day.Start()) {
		m.day = s.at(n - 1).day
	}
	if len(s.blocks) == 0 || len(s.blocks[len(s.blocks)-1]) == blockSize {
		s.blocks = append(s.blocks, nil)
	}
	last := &s.blocks[len(s.blocks)-1]
	*last = append(*last, m)
}

// newest is the movements of some days, at most so many, newest first.
func (s *statement) newest(from, to tranid.Date, most int) []movement {
	start, end := from.Start(), to.Start()
	behind := sort.Search(s.count(), func(i int) bool { return s.at(i).day.Start().After(end) })
	var found []movement
	for i := behind - 1; i >= 0 && len(found) < most; i-- {
		m := s.at(i)
		if m.day.Start().Before(start) {
			break
		}
		found = append(found, m)
	}
	return found
}

// move changes a balance and says so in the account's statement.
func (s *state) move(n account.Number, after account.Won, why cause, at time.Time) {
	before := s.balances[n]
	s.balances[n] = after
	st := s.statements[n]
	if st == nil {
		st = new(statement)
		s.statements[n] = st
	}
	st.add(movement{day: tranid.DateOf(at), cause: why, change: after - before, after: after})
}
