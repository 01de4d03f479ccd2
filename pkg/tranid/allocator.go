package tranid

import (
	"context"
	"errors"
	"fmt"
	"sync"
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

// Blocks gives out blocks of a day's numbers, each number at most once for
// ever, over all instances.
type Blocks interface {
	// NextBlock takes up to count numbers of the day, the first of them at
	// least floor. It returns ErrDayExhausted when the day has none left.
	NextBlock(ctx context.Context, day Date, count, floor int64) (Block, error)
}

// ErrDayExhausted says that all numbers of a day were given out.
var ErrDayExhausted = errors.New("the day's transaction numbers are used up")

// Allocator gives out IDs from blocks that it takes from Blocks. It is safe for
// concurrent use; callers that need a new block wait for one and the same.
type Allocator struct {
	blocks    Blocks
	now       func() time.Time
	blockSize int64

	refill chan struct{} // holds one token: who has it may fetch

	mu      sync.Mutex
	current Block // what is left
}

// NewAllocator returns an Allocator that takes blockSize numbers at a time.
func NewAllocator(blocks Blocks, now func() time.Time, blockSize int64) *Allocator {
	a := &Allocator{blocks: blocks, now: now, blockSize: blockSize, refill: make(chan struct{}, 1)}
	a.refill <- struct{}{}
	return a
}

// Next returns an ID of the business day of now, and the moment that decided
// the day.
func (a *Allocator) Next(ctx context.Context) (ID, time.Time, error) {
	at := a.now()
	day := DateOf(at)
	if id, ok := a.take(day); ok {
		return id, at, nil
	}
	select {
	case <-a.refill:
		defer func() { a.refill <- struct{}{} }()
	case <-ctx.Done():
		return "", at, fmt.Errorf("wait for transaction numbers: %w", ctx.Err())
	}
	if id, ok := a.take(day); ok { // fetched by the caller before
		return id, at, nil
	}
	block, err := a.blocks.NextBlock(ctx, day, a.blockSize, floor(at, day))
	if err != nil {
		return "", at, fmt.Errorf("take transaction numbers of %s: %w", day, err)
	}
	if block.Day != day || block.First < 0 || block.Count < 1 || block.First+block.Count > MaxNumber+1 {
		return "", at, fmt.Errorf("take transaction numbers of %s: the block is of %s, %d from %d",
			day, block.Day, block.Count, block.First)
	}
	id := New(day, block.First)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.current = Block{Day: day, First: block.First + 1, Count: block.Count - 1}
	return id, at, nil
}

func (a *Allocator) take(day Date) (ID, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.current.Day != day || a.current.Count == 0 {
		return "", false
	}
	id := New(day, a.current.First)
	a.current.First++
	a.current.Count--
	return id, true
}

// floor is the lowest number that may be given out now: ten for each
// millisecond of the day so far. Should the table of blocks be lost, numbers
// given out before, at less than 10,000 a second, are not given out again.
func floor(at time.Time, day Date) int64 {
	return min(at.Sub(day.Start()).Milliseconds()*10, MaxNumber)
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
