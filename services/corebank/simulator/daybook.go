package simulator

import (
	"slices"
	"sort"
	"strconv"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// bookLine is one payment in the book of the day that its ID bears.
type bookLine struct {
	number   uint32 // of its ID; with the day it is the ID
	canceled bool
	account  account.Number
	// amount is what stands, or what was undone last.
	amount account.Won
}

// dayBook is the payments that were done under the IDs of one day, ascending, in
// blocks of at most blockSize. Instances of a gateway take numbers in turn, so
// payments do not arrive in order; in blocks, neither one that comes between
// others nor a page far behind costs more than a few microseconds.
type dayBook struct{ blocks [][]bookLine }

// line finds the line of a number, and makes it if there is none.
func (d *dayBook) line(number uint32) *bookLine {
	// The last block that starts at or before it; the first for one before all.
	b := max(0, sort.Search(len(d.blocks), func(i int) bool { return d.blocks[i][0].number > number })-1)
	if len(d.blocks) == 0 {
		d.blocks = append(d.blocks, nil)
	}
	i, found := slices.BinarySearchFunc(d.blocks[b], number, func(l bookLine, n uint32) int { return int(l.number) - int(n) })
	if found {
		return &d.blocks[b][i]
	}
	if len(d.blocks[b]) == blockSize {
		// What comes last begins a block of its own, so that blocks that are
		// filled in order are full; else half of it makes room.
		half := blockSize / 2
		if i == blockSize && b == len(d.blocks)-1 {
			half = blockSize
		}
		d.blocks = slices.Insert(d.blocks, b+1, slices.Clone(d.blocks[b][half:]))
		d.blocks[b] = d.blocks[b][:half:half]
		if i >= half {
			b, i = b+1, i-half
		}
	}
	d.blocks[b] = slices.Insert(d.blocks[b], i, bookLine{number: number})
	return &d.blocks[b][i]
}

// page is a copy of at most so many lines, behind those that are skipped.
func (d *dayBook) page(skip int64, most int) []bookLine {
	var page []bookLine
	for _, block := range d.blocks {
		if skip >= int64(len(block)) {
			skip -= int64(len(block))
			continue
		}
		page = append(page, block[skip:min(len(block), int(skip)+most-len(page))]...)
		skip = 0
		if len(page) == most {
			break
		}
	}
	return page
}

// bookOf is the line of a payment in the book of its day; nil for an ID of
// another form than the gateway's, which bears no day.
func (s *state) bookOf(id tranid.ID) *bookLine {
	day := id.Date()
	if day.IsZero() {
		return nil
	}
	number, err := strconv.ParseUint(string(id[tranid.Length-numberDigits:]), 10, 32)
	if err != nil {
		return nil
	}
	book := s.days[day]
	if book == nil {
		book = new(dayBook)
		s.days[day] = book
	}
	return book.line(uint32(number))
}

// numberDigits is how many digits at the end of an ID are its number.
const numberDigits = 9
