package telegram_test

import (
	"bytes"
	"strings"
	"testing"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

func TestMask_HidesTheAccountAndNothingElse(t *testing.T) {
	for mti, want := range map[string]string{
		"0200": "0200" + id + "**************" + "IN01        ",
		"0100": "0100" + id + "**************" + "000000049900",
		"0400": "0400" + id + "ST01                      ",
		"0420": "0420" + id + "NC01                      ",
		"0210": "0210" + id + "000000001500000" + "0000" + "\xc1\xb6\xc8\xb8\xbf\xcf\xb7\xe1        ",
	} {
		b := golden(t, samples[mti].parts)
		before := bytes.Clone(b)
		if got := telegram.Mask(b); string(got) != want {
			t.Errorf("%s is shown as %q, want %q", mti, got, want)
		}
		if !bytes.Equal(b, before) {
			t.Errorf("%s: the frame itself was changed", mti)
		}
	}
}

func TestMask_HidesLongRunsInText(t *testing.T) {
	const text = "12345678901234"
	for mti, offset := range map[string]int{"0110": 30, "0410": 36, "0430": 36, "0210": 45} {
		b := with(golden(t, samples[mti].parts), offset, text)
		got := telegram.Mask(b)
		if bytes.Contains(got, []byte("1234567")) || !bytes.Contains(got, []byte(strings.Repeat("*", len(text)))) {
			t.Errorf("%s is shown as %q", mti, got)
		}
		if !bytes.Contains(got, []byte(id)) {
			t.Errorf("%s lost its transaction ID: %q", mti, got)
		}
	}
	wide := with(golden(t, goldenPaymentAnswer), 30, "\xa3\xb1\xa3\xb2\xa3\xb3\xa3\xb4\xa3\xb5\xa3\xb6\xa3\xb7")
	if got := telegram.Mask(wide); bytes.ContainsRune(got, 0xA3) || !bytes.Contains(got, []byte("**************")) {
		t.Errorf("full-width digits are shown as %q", got)
	}
}

func TestMask_HidesDigitsWhereNothingShouldStand(t *testing.T) {
	b := with(golden(t, goldenStatusRequest), 30, "11012345678901")
	if got := telegram.Mask(b); bytes.Contains(got, []byte("110")) || !bytes.Contains(got, []byte(id)) {
		t.Errorf("shown as %q", got)
	}
}

func TestMask_HidesEveryDigitOfAnUnknownFrame(t *testing.T) {
	payment := string(golden(t, goldenPaymentRequest))
	for in, want := range map[string]string{
		"":                     "",
		"01":                   "01",
		"0100":                 "0100",
		"9999 1a2":             "9999 *a*",
		"0100" + "12345":       "0100*****",
		"\x00\x01\x02\x0312":   "\x00\x01\x02\x03**",
		"0100\xa3\xb1\xa3\xb2": "0100****",
	} {
		if got := telegram.Mask([]byte(in)); string(got) != want {
			t.Errorf("%q is shown as %q, want %q", in, got, want)
		}
	}
	for name, in := range map[string]string{
		"one byte short":       payment[:51],
		"one byte long":        payment + " ",
		"shifted by a byte":    payment[1:] + " ",
		"in an answer's place": payment + "         ",
		"type of an answer":    "0110" + payment[4:],
	} {
		if got := telegram.Mask([]byte(in)); bytes.ContainsAny(got[4:], "0123456789") {
			t.Errorf("%s is shown as %q", name, got)
		}
	}
}
