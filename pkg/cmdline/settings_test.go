package cmdline_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gwanmun/gwanmun/pkg/cmdline"
)

// stamp is a type that cmdline does not know.
type stamp struct{ text string }

type allKinds struct {
	Link  linkFlags `embed:""`
	Bank  bankFlags `embed:"" prefix:"bank-"`
	Limit limits    `embed:""`

	DSN    string         `name:"ledger-dsn" shown:"dsn"`
	Key    string         `name:"hash-key" shown:"key"`
	Typo   string         `name:"typo" shown:"kye"`
	Pin    cmdline.Secret `name:"pin"`
	Unset  cmdline.Secret `name:"unset"`
	Nobody string         `name:"nobody"`
	Odd    stamp          `name:"odd"`
	Share  float64        `name:"trace-ratio"`
	On     bool           `name:"migrate"`
	Places []string       `name:"core-addr-list"`
	None   []string       `name:"none"`
	inner  string

	PoolWait time.Duration `help:"Named by its field."`
	TLSCAPEM string        `help:"Capitals."`
	HTTPPort int           `help:"Capitals and a word."`
}

type bankFlags struct {
	Code int `name:"code"`
}

type limits struct {
	Rate  *int `name:"rate"`
	Burst *int `name:"burst"`
	Other *int `name:"other"`
}

func (l *limits) Effective() map[string]any { return map[string]any{"burst": 2 * *l.Rate} }

// started is the line of a start, read back, and as it was written.
func started(t *testing.T, cfg any) (map[string]any, string) {
	t.Helper()
	var out bytes.Buffer
	cmdline.Starting(t.Context(), slog.New(slog.NewJSONHandler(&out, nil)), "v1.2.3", cfg)
	var line struct {
		Level, Msg, Version string
		Settings            map[string]any
	}
	first, _, _ := strings.Cut(out.String(), "\n") // a second one would be about variables of whoever tests
	if err := json.Unmarshal([]byte(first), &line); err != nil {
		t.Fatalf("%v in %q", err, out.String())
	}
	if line.Level != "INFO" || line.Msg != "starting" || line.Version != "v1.2.3" {
		t.Errorf("the line is %q", out.String())
	}
	return line.Settings, out.String()
}

func TestStarting_TellsEverySettingAndNoSecret(t *testing.T) {
	seven := 7
	got, text := started(t, &allKinds{
		Link:  linkFlags{CoreAddr: "127.0.0.1:9099", ReadTimeout: 3 * time.Second},
		Bank:  bankFlags{Code: 11},
		Limit: limits{Rate: &seven},
		DSN:   "postgres://pay:hunter2@db:5432/ledger?sslmode=require", Key: "hunter2", Typo: "hunter2",
		Pin: cmdline.NewSecret("hunter2"), Odd: stamp{"hunter2"}, Share: 0.1, On: true, Places: []string{"a:1", "b:2"}, inner: "hunter2",
		PoolWait: time.Second, TLSCAPEM: "f", HTTPPort: 80,
	})
	want := map[string]any{
		"core_addr": "127.0.0.1:9099", "read_timeout": "3s", "bank_code": 11.0, "rate": 7.0, "burst": 14.0,
		"ledger_dsn": "postgres://pay@db:5432/ledger?sslmode=require", "hash_key": "***", "typo": "***", "pin": "***", "odd": "***",
		"trace_ratio": 0.1, "migrate": true, "core_addr_list": []any{"a:1", "b:2"},
		"pool_wait": "1s", "tlscapem": "f", "http_port": 80.0,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
	if strings.Contains(text, "hunter2") {
		t.Errorf("a secret is in %q", text)
	}
}

func TestStarting_ADSNHasNoPassword(t *testing.T) {
	for dsn, want := range map[string]string{
		"sqlite:var/ledger.db":                                        "sqlite:var/ledger.db",
		"postgres://db/ledger":                                        "postgres://db/ledger",
		"postgres://pay@db/ledger":                                    "postgres://pay@db/ledger",
		"postgres://pay:hunter2@db/ledger":                            "postgres://pay@db/ledger",
		"postgres://pay:h%75nter2hunter2@db/ledger":                   "postgres://pay@db/ledger",
		"postgres://pay:@db/ledger?PassWord=hunter2&sslmode=disable":  "postgres://pay@db/ledger?sslmode=disable",
		"postgres://db/ledger?user=pay&password=hunter2":              "postgres://db/ledger?user=pay",
		"postgres://db/ledger?sslpassword=hunter2&%70assword=hunter2": "postgres://db/ledger",
		"postgres://db/ledger#hunter2":                                "postgres://db/ledger",
		"postgres://pay:hunter2@db:port/ledger":                       "***",
		"postgres://pay:hun%zzter2@db/ledger":                         "***",
		"postgres://db/ledger?password=hunter2;x":                     "***",
		"host=db user=pay password=hunter2":                           "***",
		"postgres:pay:hunter2@db":                                     "***",
		"":                                                            "",
	} {
		got, text := started(t, &struct {
			DSN string `name:"ledger-dsn" shown:"dsn"`
		}{dsn})
		if shown, _ := got["ledger_dsn"].(string); shown != want {
			t.Errorf("%s shows as %q, want %q", dsn, shown, want)
		}
		if strings.Contains(text, "hunter2") {
			t.Errorf("%s: a secret is in %q", dsn, text)
		}
	}
}

func TestStarting_AKeyInAFileShowsTheFile(t *testing.T) {
	got, _ := started(t, &struct {
		Key string `name:"hash-key" shown:"key"`
	}{"file:/run/secrets/key"})
	if got["hash_key"] != "file:/run/secrets/key" {
		t.Errorf("settings %v", got)
	}
}

func TestStarting_NamesVariablesThatNoSettingReads(t *testing.T) {
	for name, value := range map[string]string{
		"GWANMUN_CORE_FENCE": "false", "GWANMUN_POOL_WAITS": "secret-5150", "GWANMUN_UNSET_ONE": "", // no setting
		"GWANMUN_POOL_WAIT": "1s", "GWANMUN_BANK_CODE": "4", "GWANMUN_CONFIG": "file", "GWANMUN": "gate",
	} {
		t.Setenv(name, value)
	}
	rate := 3
	var out bytes.Buffer
	cmdline.Starting(t.Context(), slog.New(slog.NewJSONHandler(&out, nil)), "v1.2.3", &allKinds{Limit: limits{Rate: &rate}})
	_, warned, _ := strings.Cut(out.String(), `"level":"WARN","msg":"variables are set that no setting reads"`)
	for name, named := range map[string]bool{
		`"GWANMUN_CORE_FENCE"`: true, `"GWANMUN_POOL_WAITS"`: true, "UNSET_ONE": false, `"GWANMUN_POOL_WAIT"`: false,
		"BANK_CODE": false, "GWANMUN_CONFIG": false, `"GWANMUN"`: false, "secret-5150": false,
	} {
		if strings.Contains(warned, name) != named {
			t.Errorf("%s is named: %t, in %s", name, !named, warned)
		}
	}
}

func TestParse_AnAtTooManyInADSNIsAUsageErrorThatDoesNotRepeatIt(t *testing.T) {
	var cfg struct {
		Ledger struct {
			DSN string `name:"ledger-dsn" shown:"dsn" default:"sqlite:var/ledger.db" help:"The book."`
		} `embed:""`
	}
	for dsn, wrong := range map[string]bool{
		"postgres://u:5432/secret5150@db/book":      true,
		"postgres://u:half@secret5150@db:5432/book": true, "postgres://u:half@secret/5150@db/book": true, "postgres://u:half#@secret5150@db/book": true,
		"postgres://u:half%40secret5150@db:5432/book": false, "postgres://u@db/book?password=half@secret5150@": false, "sqlite:var/a@b@c.db": false,
	} {
		err := cmdline.Parse("payment", "v1", "", []string{"--ledger-dsn=" + dsn}, &cfg, nil, io.Discard)
		if (err != nil) != wrong || wrong && (cmdline.ExitCode(err) != 2 || !strings.HasPrefix(err.Error(), "--ledger-dsn: ")) {
			t.Errorf("%s: %v", dsn, err)
		}
		if err != nil && strings.Contains(err.Error(), "5150") {
			t.Errorf("it tells the password: %v", err)
		}
	}
}
