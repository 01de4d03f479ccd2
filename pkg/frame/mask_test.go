package frame_test

import (
	"testing"

	"github.com/gwanmun/gwanmun/pkg/frame"
)

func TestMaskDigits_HidesRunsOfSevenOrMore(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "",
		"123456":               "123456",
		"1234567":              "*******",
		"a1234567b":            "a*******b",
		"123456 1234567":       "123456 *******",
		"123456-7":             "******-*",
		"987654-32-109876 없음":  "******-**-****** 없음",
		"123-456":              "123-456",
		"123456--7":            "123456--7",
		"123456 -7":            "123456 -7",
		"-1234567-":            "-*******-",
		"1234567-a":            "*******-a",
		"１２３-４５６７":             "***-****",
		"계좌 12345678901234 없음": "계좌 ************** 없음",
		"１２３４５６":               "１２３４５６",
		"１２３４５６７":              "*******",
		"123４５６7":              "*******",
		"12345678 x 7654321":   "******** x *******",
	} {
		if got := frame.MaskDigits(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestMaskDigits_CostsNothingWhereNothingIsHidden(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { frame.MaskDigits("정상처리 123456") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestHideLongRuns_HidesByteForByteWhatTheTextHides(t *testing.T) {
	for in, want := range map[string]string{
		"123456  ":                     "123456  ",
		"1234567 ":                     "******* ",
		"123-4567-":                    "***-****-",
		"123456--7":                    "123456--7",
		"\xa3\xb1-234567":              "**-******",
		"\xb0\xa11234567":              "\xb0\xa1*******",
		"123\xa3\xb4\xa3\xb5\xa3\xb67": "**********",
		"\xa3\xb1\xa3\xb2":             "\xa3\xb1\xa3\xb2",
		// A1A3 B1A3 B1A3 ... are characters, not full-width ones.
		"\xa1\xa3\xb1\xa3\xb1\xa3\xb1\xa3\xb1\xa3\xb1\xa3\xb1\xa3\xb1\xa3": "\xa1\xa3\xb1\xa3\xb1\xa3\xb1\xa3\xb1\xa3\xb1\xa3\xb1\xa3\xb1\xa3",
		"\xb01234567": "\xb0*******",
	} {
		got := []byte(in)
		frame.HideLongRuns(got)
		if string(got) != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestHideDigits_HidesEveryDigit(t *testing.T) {
	for in, want := range map[string]string{
		"":                          "",
		"a1 2":                      "a* *",
		"\xa3\xb1\xa3\xb91":         "*****",
		"\xa1\xa3\xb1\xa3":          "\xa1**\xa3", // the start of a character is not known
		"\xa3":                      "\xa3",
		"no digits, nothing hidden": "no digits, nothing hidden",
	} {
		got := []byte(in)
		frame.HideDigits(got)
		if string(got) != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}
