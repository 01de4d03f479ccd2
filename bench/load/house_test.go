package main

import (
	"database/sql"
	"path/filepath"
	"testing"
)

func TestReader_CountsWhatIsSuccess(t *testing.T) {
	for name, c := range map[string]struct {
		table, query string
		want         tally
	}{
		"product": {
			`CREATE TABLE transactions (kind text, status text);
			 INSERT INTO transactions VALUES ('PAYMENT', 'SUCCESS'), ('PAYMENT', 'SUCCESS'), ('PAYMENT', 'REQUESTED'),
			 ('BALANCE_INQUIRY', 'SUCCESS'), ('BALANCE_INQUIRY', 'UNKNOWN')`, productRows, tally{2, 1},
		},
		"naive": {
			`CREATE TABLE payments (status text); INSERT INTO payments VALUES ('SUCCESS'), ('UNKNOWN')`, naiveRows, tally{1, 0},
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "book.db")
			writer, err := sql.Open("sqlite", "file:"+path)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = writer.Close() }()
			if _, err := writer.ExecContext(t.Context(), c.table); err != nil {
				t.Fatal(err)
			}
			r, err := openReader("sqlite:"+path, c.query)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = r.pool.Close() }()
			if _, err := r.pool.ExecContext(t.Context(), "CREATE TABLE other (n int)"); err == nil {
				t.Error("a reader wrote")
			}
			if got, err := r.read(t.Context()); err != nil || got != c.want {
				t.Errorf("%+v, error %v; want %+v", got, err, c.want)
			}
		})
	}
}
