package main

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
)

const (
	blockBegin = "<!-- story: written by make readme, compared in CI -->\n```text\n"
	blockEnd   = "```\n<!-- end of story -->"
)

// differs is what changes from run to run: transaction IDs, times, balances,
// and the spaces by which a table makes up for their widths.
var differs = []struct {
	what *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`GWMNU[0-9]{17}`), "ID"},
	{regexp.MustCompile(`[0-9]+(\.[0-9]+)?(µs|ms|s)\b`), "TIME"},
	{regexp.MustCompile(`told [0-9,]+ won`), "told BALANCE won"},
	{regexp.MustCompile(` +`), " "},
}

// readme compares what was told with the block in a file, or writes it there.
func readme(path, told string, write bool) error {
	b, err := os.ReadFile(path) //nolint:gosec // the operator names it
	if err != nil {
		return fmt.Errorf("read the story's block: %w", err)
	}
	head, rest, ok := strings.Cut(string(b), blockBegin)
	block, tail, ok2 := strings.Cut(rest, blockEnd)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no block for the story", path)
	}
	if write {
		text := head + blockBegin + told + blockEnd + tail
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // a page that everyone may read
			return fmt.Errorf("write the story's block: %w", err)
		}
		return nil
	}
	if steady(block) != steady(told) {
		return errors.New("README tells another story than the one that was just played: run make readme")
	}
	return nil
}

// steady is a text without what differs from run to run.
func steady(text string) string {
	for _, d := range differs {
		text = d.what.ReplaceAllString(text, d.with)
	}
	return text
}
