package hardening

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// helpFlag is where a help begins to tell of a flag.
var helpFlag = regexp.MustCompile(`(?m)^ {2,6}(?:-\w, )?--(?:\[no-\])?([a-z-]+)`)

// notSettings are flags that leave no value behind.
var notSettings = []string{"help", "version", "config"}

// TestStart_TellsEverySetting holds the line of a start against the help: every
// setting is in it that has a value.
func TestStart_TellsEverySetting(t *testing.T) {
	for _, p := range all(t) {
		lines := p.log.of("starting")
		if len(lines) != 1 {
			t.Fatalf("%s says %d times how it starts", p.name, len(lines))
		}
		told := lines[0].Settings
		help, err := exec.Command(filepath.Join(binaries, p.name), "--help").Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range helpFlag.FindAllStringSubmatch(string(help), -1) {
			key := strings.ReplaceAll(found[1], "-", "_")
			_, is := told[key]
			unset := strings.Contains(flagText(string(help), found[1]), "nset")
			if !is && !unset && !slices.Contains(notSettings, found[1]) && !slices.Contains(unsetByDefault, found[1]) {
				t.Errorf("%s does not say what --%s is", p.name, found[1])
			}
			delete(told, key)
		}
		if len(told) != 0 {
			t.Errorf("%s tells what are no flags: %v", p.name, told)
		}
	}
}

// unsetByDefault are flags without a default that help describes otherwise.
var unsetByDefault = []string{"tls-cert", "tls-key", "tls-client-ca"}

// flagText is what a help says of one flag.
func flagText(help, flag string) string {
	at := strings.Index(help, "--"+flag)
	if at < 0 {
		at = strings.Index(help, "--[no-]"+flag)
	}
	rest := help[at+2:]
	if next := helpFlag.FindStringIndex(rest); next != nil {
		rest = rest[:next[0]]
	}
	return strings.Join(strings.Fields(rest), " ")
}

// TestStart_TellsNoSecret starts the services with every secret that there is.
func TestStart_TellsNoSecret(t *testing.T) {
	const secret = "c0ffee-hunter2"
	core := spawn(t, "corebank", "--frame-addr=127.0.0.1:0", "--listing-addr=127.0.0.1:0",
		"--book-dsn=sqlite:"+filepath.Join(t.TempDir(), "book.db"), "--callback-addr=127.0.0.1:1", "--callback-key="+secret)
	// Nobody is there: it goes on trying.
	dsn := "--ledger-dsn=postgres://pay:" + secret + "@127.0.0.1:1/ledger?sslmode=disable&sslpassword=" + secret
	for _, name := range []string{"payment", "reconciler"} {
		p := spawnCommand(t, name, exec.Command(filepath.Join(binaries, name), "--grpc-addr=127.0.0.1:0", "--admin-addr=127.0.0.1:0",
			dsn, "--hash-key="+hashKey))
		await(t, name+" starts", func() bool { return len(p.log.of("starting")) == 1 || p.hasEnded() })
		text := p.log.text()
		if strings.Contains(text, secret) || strings.Contains(text, hashKey) {
			t.Errorf("the log of %s has a secret: %s", name, text)
		}
		for _, want := range []string{`"hash_key":"***"`, `"ledger_dsn":"postgres://pay@127.0.0.1:1/ledger?sslmode=disable"`} {
			if !strings.Contains(text, want) {
				t.Errorf("the log of %s has no %s: %s", name, want, text)
			}
		}
	}
	if text := core.log.text(); strings.Contains(text, secret) || !strings.Contains(text, `"callback_key":"***"`) {
		t.Errorf("the log of the core: %s", text)
	}
}
