package access_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/access"
	"github.com/gwanmun/gwanmun/pkg/ledger"
)

func sum(key string) string {
	digest := sha256.Sum256([]byte(key))
	return hex.EncodeToString(digest[:])
}

func entry(id, key, roles string) string {
	return fmt.Sprintf(`{"id": %q, "key_sha256": %q, "roles": [%s]}`, id, sum(key), roles)
}

func clients(entries ...string) string { return `{"clients": [` + strings.Join(entries, ",") + `]}` }

func parse(t *testing.T, content string) *access.Directory {
	t.Helper()
	d, err := access.Parse([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDirectory_FindsTheClientByAnyOfHisKeys(t *testing.T) {
	d := parse(t, clients(
		entry("shop", "old", `"payment"`), entry("shop", "new", `"payment"`), entry("desk", "desk key", `"ops", "payment"`),
		entry("bank", "the core's", `"core"`),
	))
	for key, want := range map[string]access.Client{
		"old": {ID: "shop", Roles: access.Of(access.RolePayment)}, "new": {ID: "shop", Roles: access.Of(access.RolePayment)},
		"desk key": {ID: "desk", Roles: access.Of(access.RoleOps, access.RolePayment)}, "the core's": {ID: "bank", Roles: access.Of(access.RoleCore)},
	} {
		if got, ok := d.Find(key); !ok || got != want {
			t.Errorf("%s: %v, found %t", key, got, ok)
		}
	}
	for _, key := range []string{"", "Old", "old ", " old", sum("old"), "desk", strings.Repeat("x", 1<<20)} {
		if got, ok := d.Find(key); ok {
			t.Errorf("%.20q found %v", key, got)
		}
	}
	if ids := fmt.Sprint(d.IDs()); ids != "[bank desk shop]" {
		t.Errorf("clients %s", ids)
	}
}

func TestParse_RefusesAndShowsNoKey(t *testing.T) {
	secret := sum("secret")
	for name, content := range map[string]string{
		"nothing":         "",
		"no JSON":         "shop: " + secret,
		"another type":    `{"clients": "` + secret + `"}`,
		"no clients":      `{}`,
		"empty list":      `{"clients": []}`,
		"unknown field":   `{"clients": [], "` + secret + `": 1}`,
		"unknown field 2": `{"clients": [{"id": "shop", "key": "` + secret + `", "roles": ["ops"]}]}`,
		"two values":      clients(entry("shop", "secret", `"ops"`)) + clients(entry("shop", "secret", `"ops"`)),
		"no id":           clients(entry("", "secret", `"ops"`)),
		"long id":         clients(entry(strings.Repeat("a", 65), "secret", `"ops"`)),
		"id with a break": clients(`{"id": "a\nb", "key_sha256": "` + secret + `", "roles": ["ops"]}`),
		"id not ASCII":    clients(entry("상점", "secret", `"ops"`)),
		"short sum":       clients(`{"id": "shop", "key_sha256": "` + secret[:62] + `", "roles": ["ops"]}`),
		"long sum":        clients(`{"id": "shop", "key_sha256": "` + secret + `00", "roles": ["ops"]}`),
		"sum not hex":     clients(`{"id": "shop", "key_sha256": "` + strings.Repeat("g", 64) + `", "roles": ["ops"]}`),
		"no sum":          clients(`{"id": "shop", "roles": ["ops"]}`),
		"the empty key":   clients(entry("shop", "", `"ops"`)),
		"no role":         clients(entry("shop", "secret", ``)),
		"unknown role":    clients(entry("shop", "secret", `"admin"`)),
		"role in capital": clients(entry("shop", "secret", `"Ops"`)),
		"one key twice":   clients(entry("shop", "secret", `"ops"`), entry("desk", "secret", `"ops"`)),
	} {
		t.Run(name, func(t *testing.T) {
			d, err := access.Parse([]byte(content))
			if err == nil {
				t.Fatalf("accepted: %v", d.IDs())
			}
			if strings.Contains(err.Error(), secret[:20]) || strings.ContainsAny(err.Error(), "\r\n\x1b") {
				t.Errorf("error %q", err)
			}
		})
	}
}

func TestRead_NamesTheFlag(t *testing.T) {
	path := filepath.Join(t.TempDir(), "clients.json")
	if _, err := access.Read(path); err == nil || !strings.HasPrefix(err.Error(), "--clients-file: ") {
		t.Errorf("error %v", err)
	}
	if err := os.WriteFile(path, []byte(clients(entry("shop", "key", `"payment"`))), 0o600); err != nil {
		t.Fatal(err)
	}
	d, err := access.Read(path)
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := d.Find("key"); !ok || c.ID != ledger.ClientID("shop") {
		t.Errorf("%v, found %t", c, ok)
	}
}

func TestRoles(t *testing.T) {
	all := []access.Role{access.RolePayment, access.RoleOps, access.RoleCore}
	for i, r := range all {
		for j, o := range all {
			if access.Of(r).Has(o) != (i == j) || access.Of(r).Meets(access.Of(o)) != (i == j) {
				t.Errorf("%s and %s", r, o)
			}
		}
	}
	if access.Of().Meets(access.Of(all...)) {
		t.Error("who has no role meets one")
	}
	if s := access.Everyone().Roles.String(); s != "payment,ops,core" {
		t.Errorf("everyone may %s", s)
	}
}

func BenchmarkFind(b *testing.B) {
	entries := make([]string, 1000)
	for i := range entries {
		entries[i] = entry("shop", fmt.Sprint(i), `"payment"`)
	}
	d, err := access.Parse([]byte(clients(entries...)))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		d.Find("500")
	}
}
