package ledger_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/gwanmun/gwanmun/pkg/account"
	"github.com/gwanmun/gwanmun/pkg/ledger"
)

const keyHex = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

func hashKey(t *testing.T, s string) ledger.HashKey {
	t.Helper()
	key, err := ledger.ParseHashKey(s)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func number(t *testing.T, s string) account.Number {
	t.Helper()
	n, err := account.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func fingerprint(k ledger.HashKey, n account.Number, amount account.Won, order ledger.OrderID, policy ledger.Policy) ledger.Hash {
	_, print := k.Payment(n, amount, order, policy)
	return print
}

// A book outlives the program: what it recognises accounts and payments by must
// never change. The values come from another implementation
// of HMAC-SHA256.
func TestHashKey_DigestsAreTheSameForEver(t *testing.T) {
	key, n := hashKey(t, keyHex), number(t, "12345678901234")
	for what, c := range map[string]struct {
		got  ledger.Hash
		want string
	}{
		"account":     {key.Account(n), wantAccount},
		"check":       {key.Check(), wantCheck},
		"fingerprint": {fingerprint(key, n, 5000, "order-1", ledger.PolicyConfirm), wantFingerprint},
	} {
		if got := hex.EncodeToString(c.got[:]); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
	if of, _ := key.Payment(n, 5000, "order-1", ledger.PolicyConfirm); of != key.Account(n) {
		t.Error("an account has another digest in a payment")
	}
	if hashKey(t, strings.ToUpper(keyHex)) != key {
		t.Error("upper case is another key")
	}
}

func TestFingerprint_DiffersWithEveryFieldOfThePayment(t *testing.T) {
	key, n := hashKey(t, keyHex), number(t, "123")
	prints := map[ledger.Hash]string{}
	for what, print := range map[string]ledger.Hash{
		"payment": fingerprint(key, n, 5000, "", ledger.PolicyNetCancel),
		"account": fingerprint(key, number(t, "1230"), 5000, "", ledger.PolicyNetCancel),
		"amount":  fingerprint(key, n, 5001, "", ledger.PolicyNetCancel),
		"order":   fingerprint(key, n, 5000, "1", ledger.PolicyNetCancel),
		"order 2": fingerprint(key, n, 5000, "\x001", ledger.PolicyNetCancel),
		"policy":  fingerprint(key, n, 5000, "", ledger.PolicyConfirm),
		"key":     fingerprint(hashKey(t, strings.Repeat("ff", 32)), n, 5000, "", ledger.PolicyNetCancel),
		"digest":  key.Account(n),
		"check":   key.Check(),
	} {
		if other, taken := prints[print]; taken {
			t.Errorf("%s and %s have one fingerprint", what, other)
		}
		prints[print] = what
	}
	if fingerprint(key, number(t, "00000000000123"), 5000, "", ledger.PolicyNetCancel) !=
		fingerprint(key, n, 5000, "", ledger.PolicyNetCancel) {
		t.Error("leading zeros make another payment")
	}
}

func TestParseHashKey_RefusesWhatIsNoKeyWithoutRepeatingIt(t *testing.T) {
	for _, s := range []string{"", "00", keyHex[:63], keyHex + "0", keyHex + "00", strings.Repeat("zz", 32), " " + keyHex, keyHex + "\n"} {
		_, err := ledger.ParseHashKey(s)
		if !errors.Is(err, ledger.ErrHashKey) {
			t.Errorf("%q: error %v", s, err)
		}
		if err != nil && len(s) > 2 && strings.Contains(err.Error(), s) {
			t.Errorf("error repeats the key: %v", err)
		}
	}
}

type holder struct {
	key ledger.HashKey
}

func TestHashKey_NothingShowsIt(t *testing.T) {
	key := hashKey(t, keyHex)
	raw, err := hex.DecodeString(keyHex)
	if err != nil {
		t.Fatal(err)
	}
	hidden := func(how, text string) {
		t.Helper()
		for _, secret := range []string{
			keyHex[16:32], strings.ToUpper(keyHex[16:32]), string(raw[8:16]), "8 9 10 11", `\b\t\n\v`, "0x8, 0x9",
		} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows the key: %q", how, text)
			}
		}
	}
	values := []any{
		key, &key,
		[]ledger.HashKey{key},
		map[string]ledger.HashKey{"k": key},
		holder{key: key},
		&holder{key: key},
		struct{ Key ledger.HashKey }{key},
		fmt.Errorf("key %v", key),
	}
	var out bytes.Buffer
	for i, value := range values {
		for _, verb := range "vTtbcdoOqxXUeEfFgGspw" {
			for _, flag := range []string{"", "+", "#", " ", "40"} {
				format := "%" + flag + string(verb)
				hidden(fmt.Sprintf("value %d as %s", i, format), fmt.Sprintf(format, value))
			}
		}
		if text, err := json.Marshal(value); err == nil {
			hidden("JSON", string(text))
		}
		out.Reset()
		slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "value", value)
		slog.New(slog.NewTextHandler(&out, nil)).Info("x", "value", value)
		hidden("slog", out.String())
	}
	if got := fmt.Sprintf("%v %s %d %#v %q", key, key, key, key, key); got != "*** *** *** *** ***" {
		t.Error(got)
	}
}

const (
	wantAccount     = "e18ffaf96685985971fb23d7b25a726b65e0fe5f5ab7cc267d705f19f69c3260"
	wantCheck       = "1f8ce122c8a2305f06a454dc0d1c7cb07c7a262f673142194cb720980775935f"
	wantFingerprint = "1ef9bfe05c5ea6b2711e9c5841573565d9061e0f2fab9b20a1ba89a100825dcf"
)
