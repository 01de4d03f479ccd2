package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A mutation whose text is gone from the product has to follow it.
func TestTable_EveryMutationHasItsPlaceAndItsTests(t *testing.T) {
	names := map[string]bool{}
	for _, m := range table {
		if m.name == "" || m.guard == "" || len(m.edits) == 0 || len(m.tests) == 0 || names[m.name] {
			t.Errorf("%q is not complete, or there twice", m.name)
		}
		names[m.name] = true
		dir := t.TempDir()
		for _, e := range m.edits {
			b, err := os.ReadFile(filepath.Join("../..", e.file))
			if err != nil {
				t.Errorf("%s: %v", m.name, err)
				continue
			}
			write(t, filepath.Join(dir, e.file), string(b))
		}
		if _, err := m.apply(dir); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		for _, target := range m.tests {
			if found, _ := filepath.Glob(filepath.Join("../..", target.pkg, "*_test.go")); len(found) == 0 {
				t.Errorf("%s: no tests in %s", m.name, target.pkg)
			}
		}
	}
}

func TestApply_ReplacesWhatStandsThereOnceAndTakesItBack(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "pkg/a.go")
	write(t, file, "one two two")
	m := mutation{edits: []edit{{"pkg/a.go", "one", "1"}, {"pkg/a.go", "1 two two", "1 2"}}}
	undo, err := m.apply(dir)
	if err != nil || content(t, file) != "1 2" {
		t.Fatalf("%q, %v", content(t, file), err)
	}
	if err := undo(); err != nil || content(t, file) != "one two two" {
		t.Errorf("taken back: %q, %v", content(t, file), err)
	}
	for _, e := range []edit{
		{"pkg/a.go", "two", "2"}, {"pkg/a.go", "three", "3"}, {"pkg/a.go", "one", "one"}, {"pkg/b.go", "one", "1"},
	} {
		m := mutation{edits: []edit{{"pkg/a.go", "one", "1"}, e}}
		if _, err := m.apply(dir); err == nil || content(t, file) != "one two two" {
			t.Errorf("%+v: %v, and the file is %q", e, err, content(t, file))
		}
	}
}

func TestJudge_TellsTestsThatFailedFromTestsThatCouldNotRun(t *testing.T) {
	for name, c := range map[string]struct {
		events string
		want   verdict
	}{
		"a test failed":      {`{"Action":"fail","Package":"p","Test":"TestA/b"}` + "\n" + `{"Action":"fail","Package":"p","Test":"TestA"}`, caught},
		"the package failed": {`{"Action":"fail","Package":"p"}`, caught},
		"it did not compile": {`{"Action":"output","Package":"p","Output":"x"}` + "\n" + `{"Action":"fail","Package":"p","FailedBuild":"p"}`, broken},
		"nothing was run":    {``, broken},
	} {
		events, err := read(strings.NewReader(c.events))
		if err != nil {
			t.Fatal(err)
		}
		if got := judge(events, ""); got.verdict != c.want {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

func TestTargets_AreOnePerPackageButForSubtests(t *testing.T) {
	got := targets([]mutation{
		{tests: []target{{pkg: "a", run: "X"}, {pkg: "b", run: ""}}}, {tests: []target{{pkg: "a", run: "Y"}, {pkg: "b", run: "Z"}, {pkg: "a", run: "X"}, {pkg: "a", run: "X/y"}}},
	})
	want := []target{{pkg: "a", run: "X|Y"}, {pkg: "b", run: ""}, {pkg: "a", run: "X/y"}}
	if len(got) != len(want) {
		t.Fatalf("%v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
