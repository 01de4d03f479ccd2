package simulator

import (
	"context"
	"sort"
	"sync"
)

// MemoryBook is a Book that lives as long as it is referred to: several Banks,
// one after the other, may be opened on it, as a restarted core is on its file.
type MemoryBook struct {
	mu       sync.Mutex
	settings []Setting
	entries  []Entry
}

// NewMemoryBook returns an empty book.
func NewMemoryBook() *MemoryBook { return &MemoryBook{} }

// Append implements Book.
func (m *MemoryBook) Append(b Batch) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.settings = append(m.settings, b.Settings...)
	m.entries = append(m.entries, b.Entries...)
	return nil
}

// Replay implements Book.
func (m *MemoryBook) Replay(_ context.Context, to Recorder) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := 0
	for _, e := range m.entries {
		for ; next < len(m.settings) && m.settings[next].After < e.Sequence; next++ {
			if err := to.Set(m.settings[next]); err != nil {
				return err
			}
		}
		if err := to.Enter(e); err != nil {
			return err
		}
	}
	for ; next < len(m.settings); next++ {
		if err := to.Set(m.settings[next]); err != nil {
			return err
		}
	}
	return nil
}

// Journal implements Book.
func (m *MemoryBook) Journal(_ context.Context, f Filter) (Page, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	start := sort.Search(len(m.entries), func(i int) bool { return m.entries[i].Sequence > f.After })
	var page Page
	for _, e := range m.entries[start:] {
		if f.TranID != "" && e.TranID != f.TranID || f.MTI != "" && e.MTI != f.MTI {
			continue
		}
		if len(page.Entries) == f.Limit {
			page.More = true
			break
		}
		page.Entries = append(page.Entries, e)
	}
	return page, nil
}

// Close implements Book; the book keeps what it holds.
func (m *MemoryBook) Close() error { return nil }
