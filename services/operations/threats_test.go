package operations

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	threatLine = regexp.MustCompile(`(?m)^\| (C[0-9]+) \| .* \|$`)
	testName   = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9_]+)`")
	testFunc   = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
)

// threats is how many the field reports tell of.
const threats = 28

// TestSecurity_EveryThreatNamesATestThatExists looks at the table of threats: each
// has a test that holds the countermeasure, or says that nothing here does.
func TestSecurity_EveryThreatNamesATestThatExists(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(securityPath)
	if err != nil {
		t.Fatal(err)
	}
	exist := testsOfTheRepository(t)
	rows := threatLine.FindAllStringSubmatch(string(page), -1)
	if len(rows) != threats {
		t.Errorf("the table has %d threats, want %d", len(rows), threats)
	}
	for _, row := range rows {
		names := testName.FindAllStringSubmatch(row[0], -1)
		if len(names) == 0 && !strings.Contains(row[0], "**not covered**") {
			t.Errorf("%s names no test, and does not say that it is not covered", row[1])
		}
	}
	for _, name := range testName.FindAllStringSubmatch(string(page), -1) {
		if !exist[name[1]] {
			t.Errorf("there is no test %s", name[1])
		}
	}
}

// testsOfTheRepository are the names of all tests and fuzz targets.
func testsOfTheRepository(t testing.TB) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, module := range []string{"pkg", "services", "proto", "bench", "tools"} {
		err := filepath.WalkDir(filepath.Join(root, module), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
				names[m[1]] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

var (
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	alert   = regexp.MustCompile(`runbook: (\S+)`)
)

// anchors are those of a page's headings, as GitHub makes them.
func anchors(page string) map[string]bool {
	found := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(page, -1) {
		anchor := regexp.MustCompile(`[^a-z0-9 _-]`).ReplaceAllString(strings.ToLower(m[1]), "")
		found[strings.ReplaceAll(anchor, " ", "-")] = true
	}
	return found
}

// TestPages_LinksLeadSomewhere follows the links of these pages, and those of the
// alerts.
func TestPages_LinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	follow := func(from, target string) {
		path, anchor, _ := strings.Cut(target, "#")
		if path == "" {
			path = filepath.Base(from)
		}
		text, err := os.ReadFile(filepath.Join(filepath.Dir(from), path))
		if err != nil && anchor == "" {
			_, err = os.Stat(filepath.Join(filepath.Dir(from), path))
		}
		if err != nil || anchor != "" && !anchors(string(text))[anchor] {
			t.Errorf("%s links to %s, which is not there (%v)", from, target, err)
		}
	}
	for _, name := range []string{"docs/operations.md", "docs/security.md", "README.md", "CONTRIBUTING.md"} {
		from := filepath.Join(root, name)
		text, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if !strings.Contains(m[1], "://") {
				follow(from, m[1])
			}
		}
	}
	rules, err := os.ReadFile(filepath.Join(root, "deploy", "prometheus", "rules.yml"))
	if err != nil {
		t.Fatal(err)
	}
	runbooks := alert.FindAllStringSubmatch(string(rules), -1)
	if len(runbooks) == 0 {
		t.Error("no alert has a runbook")
	}
	for _, m := range runbooks {
		follow(filepath.Join(root, "rules.yml"), m[1])
	}
}
