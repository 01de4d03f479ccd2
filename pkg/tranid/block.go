package tranid

import (
	"fmt"
	"time"
)

// Block is a run of numbers of one day that nobody else was given.
type Block struct {
	// Day is the day whose numbers these are.
	Day Date
	// First is the first number of the run.
	First int64
	// Count is how many there are, at least 1.
	Count int64
}

// end is the number after the last.
func (b Block) end() int64 { return b.First + b.Count }

// perMillisecond is the pace of the floor.
const perMillisecond = 10

// floor is the lowest number of the day that may be taken at a moment: ten for
// each millisecond of the day so far, 0 before it and no more after it.
func floor(at time.Time, day Date) int64 {
	elapsed := min(max(at.Sub(day.Start()), 0), dayLength)
	return elapsed.Milliseconds() * perMillisecond
}

// TakeBlock is the block that comes next when the day's numbers before next are
// given out: up to count of them, from floor on at least, fewer where the day
// ends. It returns ErrDayExhausted when there is none left.
func TakeBlock(day Date, next, count, floor int64) (Block, error) {
	if day.IsZero() || count < 1 || floor < 0 || next < 0 {
		return Block{}, fmt.Errorf("take %d numbers of %s from %d: out of range", count, day, floor)
	}
	first := max(next, floor)
	if first > MaxNumber {
		return Block{}, ErrDayExhausted
	}
	return Block{Day: day, First: first, Count: min(count, MaxNumber+1-first)}, nil
}
