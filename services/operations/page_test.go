package operations

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A page has parts of three kinds, besides its prose:
//
//	<!-- stage: NAME -->    something happens, which the test plays
//	```sh                   lines that are executed, together
//	<!-- shown: a b -->     of the output that follows, only these keys are shown
//	```json or ```text      what the lines before it show
//
// A block of lines under `<!-- not run: WHY -->` is left alone.

// part is a stage or a block of lines.
type part struct {
	stage string
	// lines is what is executed, as the page has it.
	lines string
	// shown are the keys that are left of the output; empty means all of it.
	shown []string
	// output is what the page shows, with where that stands; absent if it shows
	// nothing.
	output   string
	from, to int
	shows    bool
	at       int // the number of the line, from 1
}

var (
	anyOutput = regexp.MustCompile("(?m)^```(json|text)$")
	anyStage  = regexp.MustCompile("(?m)^<!-- *stage")
	anyKeys   = regexp.MustCompile("(?m)^<!-- *shown")

	partOf   = regexp.MustCompile("(?ms)^<!-- stage: ([A-Za-z ]+) -->\n|^(<!-- not run: [^>]*-->\n)?```sh\n(.*?)^```\n")
	outputOf = regexp.MustCompile("(?ms)\\A\n(?:<!-- shown: ([A-Za-z_ ]+) -->\n)?```(?:json|text)\n(.*?)^```\n")
)

// parts reads a page. What is not understood would be passed over, so that is an
// error.
func parts(t testing.TB, page string) []part {
	t.Helper()
	var all []part
	outputs, stages, keys := 0, 0, 0
	for _, m := range partOf.FindAllStringSubmatchIndex(page, -1) {
		p := part{at: 1 + strings.Count(page[:m[0]], "\n")}
		switch {
		case m[2] >= 0:
			p.stage = page[m[2]:m[3]]
			stages++
		case m[4] >= 0:
			continue
		default:
			p.lines = page[m[6]:m[7]]
			if o := outputOf.FindStringSubmatchIndex(page[m[1]:]); o != nil {
				p.shows, p.from, p.to = true, m[1]+o[4], m[1]+o[5]
				p.output = page[p.from:p.to]
				outputs++
				if o[2] >= 0 {
					p.shown = strings.Fields(page[m[1]:][o[2]:o[3]])
					keys++
				}
			}
		}
		all = append(all, p)
	}
	for what, found := range map[*regexp.Regexp]int{anyOutput: outputs, anyStage: stages, anyKeys: keys} {
		if n := len(what.FindAllString(page, -1)); n != found {
			t.Errorf("the page has %d of %s, and %d of them are understood", n, what, found)
		}
	}
	return all
}

var jsonKey = regexp.MustCompile(`^\s*"([A-Za-z_@]+)":`)

// shorten leaves of an output in JSON the lines with these keys, and what holds
// them together; what is left out is an ellipsis.
func shorten(output string, keys []string) string {
	if len(keys) == 0 {
		return output
	}
	var kept strings.Builder
	gap := false
	for line := range strings.Lines(output) {
		text := strings.TrimRight(line, "\n")
		key := jsonKey.FindStringSubmatch(text)
		opens := strings.HasSuffix(text, "{") || strings.HasSuffix(text, "[")
		if key != nil && !opens && !slices.Contains(keys, key[1]) {
			if !gap {
				indent := text[:len(text)-len(strings.TrimLeft(text, " \t"))]
				kept.WriteString(indent + "...\n")
			}
			gap = true
			continue
		}
		gap = false
		kept.WriteString(line)
	}
	return kept.String()
}

// differs is what changes from run to run.
var differs = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`GWMNU[0-9]{17}`), "ID"},
	{regexp.MustCompile(`\b[0-9A-Z]{26}\b`), "NAME"},
	{regexp.MustCompile(`\b(payment|reconciler)-[A-Za-z0-9-]+-[0-9]+-[0-9a-f]{4}\b`), "INSTANCE"},
	{regexp.MustCompile(`\b[0-9a-f]{33,}\b`), "HEX"},
	{regexp.MustCompile(`\b[0-9a-f]{32}\b`), "TRACE"},
	{regexp.MustCompile(`\b[0-9a-f]{16}\b`), "SPAN"},
	{regexp.MustCompile(`\b20[0-9]{2}-[01][0-9]-[0-3][0-9][T ][0-9:.]+(Z|\+[0-9:]+)?`), "TIME"},
	{regexp.MustCompile(`\b20[0-9]{2}-[01][0-9]-[0-3][0-9]\b`), "DAY"},
	{regexp.MustCompile(`\b[0-9]+(\.[0-9]+)?(µs|ms|s)\b`), "DURATION"},
	{regexp.MustCompile(`("(sequence|approvalNumber|elapsed_ms|took)":) ?("[^"]*"|[0-9.]+)`), "$1 N"},
	{regexp.MustCompile(`"(peer|address)":"[^"]*"`), `"$1":"ADDRESS"`},
	{regexp.MustCompile(`\b[0-9]+(\.[0-9]+)?e\+[0-9]+\b`), "NUMBER"},
	{regexp.MustCompile(`(?m)^(gwanmun_ledger_queue_depth|gwanmun_ratelimit_rejected_total\{.*\}) [0-9]+$`), "$1 NUMBER"}, // rows are written behind
	{regexp.MustCompile(`(?m)^(gwanmun_(unknown|needs_review)_transactions) [0-9]+$`), "$1 NUMBER"},                       // counted beside the sweep
	{regexp.MustCompile(`(?m)(_seconds|_bytes)( |[{][^}]*[}] )[0-9.e+]+$`), "$1${2}NUMBER"},
}

// steady is a text without what differs from run to run.
func steady(text string) string {
	for _, d := range differs {
		text = d.what.ReplaceAllString(text, d.with)
	}
	return text
}

// names are what the page calls things, beside what they are called in this run.
// The page has its own in a comment, so that its lines are whole: an ID that was
// real when it was written, in place of one to fill in.
type names struct {
	order []string
	page  map[string]string
	run   map[string]string
}

var namesOf = regexp.MustCompile(`(?m)^<!-- names: (.*) -->$`)

func readNames(t testing.TB, page string) *names {
	t.Helper()
	n := &names{page: map[string]string{}, run: map[string]string{}}
	m := namesOf.FindStringSubmatch(page)
	if m == nil {
		t.Fatal("the page has no names")
	}
	for pair := range strings.FieldsSeq(m[1]) {
		name, value, _ := strings.Cut(pair, "=")
		n.order = append(n.order, name)
		n.page[name] = value
	}
	return n
}

// set says what something is called in this run.
func (n *names) set(t testing.TB, name, value string) {
	t.Helper()
	if n.page[name] == "" {
		t.Fatalf("the page has no name for %s", name)
	}
	n.run[name] = value
}

// translate puts this run's names in place of the page's.
func (n *names) translate(text string) string {
	var pairs []string // in the comment's order: of two that begin alike the first is taken
	for _, name := range n.order {
		if value, known := n.run[name]; known {
			pairs = append(pairs, n.page[name], value)
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}

// comment is the page's comment with this run's names.
func (n *names) comment(t testing.TB) string {
	t.Helper()
	var pairs []string
	for _, name := range n.order {
		if n.run[name] == "" {
			t.Errorf("nothing says what %s is called in this run", name)
		}
		pairs = append(pairs, name+"="+n.run[name])
	}
	return fmt.Sprintf("<!-- names: %s -->", strings.Join(pairs, " "))
}
