package main

import (
	"testing"
)

// A mutation whose text is not there any more tries nothing: that is found here in a
// second, and not in a run of minutes.
func TestTable_EveryEditHasItsPlace(t *testing.T) {
	tree := tree{dir: t.TempDir()}
	if err := tree.copy(t.Context(), "../.."); err != nil {
		t.Fatal(err)
	}
	for _, m := range table {
		undo, err := m.apply(tree.dir)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		if err := undo(); err != nil {
			t.Fatal(err)
		}
	}
}
