package gormstore

import (
	"fmt"
	"strings"
	"sync"

	"gorm.io/gorm"
)

// wording is in what one statement may differ from another of its kind but for
// what it carries: those that agree in it have the same text.
type wording struct {
	kind string
	// alone is a statement of one row, which has no arrays.
	alone bool
	// more is what only some have: orders, or what payments have.
	more bool
}

// wordings are the texts of the statements that are made all the time. To put one
// together costs a lone payment more than to write its values.
type wordings struct {
	mu    sync.Mutex
	texts map[wording]string
}

// text is the statement of that wording with PostgreSQL's marks; word makes it,
// with GORM's, the first time that it is asked for.
func (w *wordings) text(of wording, word func() string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text, ok := w.texts[of]
	if !ok {
		if w.texts == nil {
			w.texts = make(map[wording]string)
		}
		text = marked(word())
		w.texts[of] = text
	}
	return text
}

// marked is a text of ours with $1, $2 and so on in the place of each question
// mark: none stands in it for anything else.
func marked(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "?") {
		if i > 0 {
			_, _ = fmt.Fprintf(&b, "$%d", i)
		}
		_, _ = b.WriteString(part)
	}
	return b.String()
}

// asWorded is a statement that has its marks already, so that GORM need not look for
// the places of its values.
func asWorded(db *gorm.DB, text string, values []any) *gorm.DB {
	query := db.Raw("")
	_, _ = query.Statement.SQL.WriteString(text)
	query.Statement.Vars = values
	return query
}
