package opsapi

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

func someCursor() *ledger.Cursor {
	return &ledger.Cursor{RequestedAt: time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), ID: "GWMNU20260102000000123"}
}

func TestPageToken_RoundTrip(t *testing.T) {
	filters := fingerprintOf(ledger.Filter{Statuses: []ledger.Status{ledger.StatusUnknown}})
	token := formatPageToken(someCursor(), filters)
	got, err := parsePageToken(token, filters)
	if err != nil || *got != *someCursor() {
		t.Errorf("%q is read back as %v, %v", token, got, err)
	}
	if got, err := parsePageToken("", filters); got != nil || err != nil {
		t.Errorf("no token is %v, %v", got, err)
	}
	if token := formatPageToken(nil, filters); token != "" {
		t.Errorf("the last page has the token %q", token)
	}
}

// Each filter differs from the others in one thing.
func TestPageToken_OfOtherFiltersIsRefused(t *testing.T) {
	yes, no := true, false
	one, two := ledger.Hash{1}, ledger.Hash{2}
	at := someCursor().RequestedAt
	filters := []ledger.Filter{
		{},
		{Client: "shop"},
		{Statuses: []ledger.Status{ledger.StatusUnknown}},
		{Statuses: []ledger.Status{ledger.StatusFailed}},
		{Kinds: []ledger.Kind{ledger.KindPayment}},
		{NeedsReview: &yes},
		{NeedsReview: &no},
		{Order: "a"},
		{CorrelationID: "a"},
		{AccountHash: &one},
		{AccountHash: &two},
		{RequestedFrom: at},
		{RequestedTo: at},
	}
	for i, made := range filters {
		token := formatPageToken(someCursor(), fingerprintOf(made))
		for j, used := range filters {
			if _, err := parsePageToken(token, fingerprintOf(used)); (err == nil) != (i == j) {
				t.Errorf("made under %+v, used under %+v: %v", made, used, err)
			}
		}
	}
}

func TestPageToken_PageAndTimeZoneAreNoPartOfTheFilter(t *testing.T) {
	at := someCursor().RequestedAt
	a := ledger.Filter{RequestedFrom: at, Limit: 1}
	b := ledger.Filter{RequestedFrom: at.In(time.FixedZone("KST", 9*3600)), Limit: 2, After: someCursor()}
	if fingerprintOf(a) != fingerprintOf(b) {
		t.Error("two pages of one query differ")
	}
}

func FuzzParsePageToken_AnyTextIsAPlaceOrAnError(f *testing.F) {
	filters := fingerprintOf(ledger.Filter{})
	valid := formatPageToken(someCursor(), filters)
	raw, err := base64.RawURLEncoding.DecodeString(valid)
	if err != nil {
		f.Fatal(err)
	}
	old := append([]byte{tokenVersion + 1}, raw[1:]...)
	f.Add(valid)
	f.Add(valid + "=")
	f.Add(valid[:len(valid)-1])
	f.Add(strings.Repeat("_", len(valid)))
	f.Add(base64.RawURLEncoding.EncodeToString(old))
	f.Add("\x00\xff")
	f.Fuzz(func(t *testing.T, token string) {
		place, err := parsePageToken(token, filters)
		if err != nil || place == nil {
			return
		}
		if again := formatPageToken(place, filters); again != token {
			t.Errorf("%q is read as %v, which is %q", token, place, again)
		}
	})
}

func TestPageToken_OfAnotherVersionOrCutIsRefused(t *testing.T) {
	filters := fingerprintOf(ledger.Filter{})
	valid := formatPageToken(someCursor(), filters)
	raw, err := base64.RawURLEncoding.DecodeString(valid)
	if err != nil {
		t.Fatal(err)
	}
	encode := base64.RawURLEncoding.EncodeToString
	badID := append(append([]byte{}, raw[:len(raw)-1]...), 'x')
	farYear := append([]byte{}, raw...)
	farYear[1+fingerprintLength] = 0x7f
	for name, token := range map[string]string{
		"another version":  encode(append([]byte{tokenVersion + 1}, raw[1:]...)),
		"cut":              encode(raw[:len(raw)-1]),
		"longer":           encode(append(append([]byte{}, raw...), 0)),
		"a bad ID":         encode(badID),
		"a time of no use": encode(farYear),
		"padded":           valid + "=",
		"a line feed":      valid[:10] + "\n" + valid[10:],
	} {
		if place, err := parsePageToken(token, filters); err == nil {
			t.Errorf("%s is %v", name, place)
		}
	}
}
