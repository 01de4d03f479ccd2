package frame_test

import (
	"bytes"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/unicode/norm"

	"github.com/gwanmun/gwanmun/pkg/frame"
)

func encodeText(text string, width int) ([]byte, error) {
	return write(width, func(e *frame.Encoder) { e.Korean("f", frame.Text{Value: text}, width) })
}

func decodeText(field []byte) frame.Text {
	d := frame.Decode(field, len(field))
	return d.Korean(0, len(field))
}

func TestKorean_RefusesWhatAStrictPeerCannotRead(t *testing.T) {
	tests := map[string]struct {
		text string
		want frame.Reason
	}{
		"syllable of CP949 only":      {"뷁", frame.ReasonCharset},
		"another of CP949 only":       {"펲시맨 똠", frame.ReasonCharset},
		"won sign":                    {"₩100", frame.ReasonCharset},
		"emoji":                       {"ok 🙂", frame.ReasonCharset},
		"replacement character":       {"a�", frame.ReasonCharset},
		"invalid UTF-8":               {"가\xff", frame.ReasonCharset},
		"UTF-8 cut in the middle":     {"가\xea\xb0", frame.ReasonCharset},
		"C1 control":                  {"a\u0085", frame.ReasonCharset},
		"no-break space":              {"a\u00a0b", frame.ReasonCharset},
		"zero width space":            {"a\u200bb", frame.ReasonCharset},
		"right-to-left override":      {"a\u202eb", frame.ReasonCharset},
		"NUL":                         {"a\x00", frame.ReasonControl},
		"substitute":                  {"가\x1a", frame.ReasonControl},
		"line feed":                   {"a\nb", frame.ReasonControl},
		"DEL":                         {"a\x7f", frame.ReasonControl},
		"ASCII of a byte too many":    {strings.Repeat("a", 21), frame.ReasonTooLong},
		"Hangul of a byte too many":   {"a" + strings.Repeat("가", 10), frame.ReasonTooLong},
		"14 syllables":                {strings.Repeat("가", 14), frame.ReasonTooLong},
		"decomposed, a byte too many": {norm.NFD.String("a" + strings.Repeat("각", 10)), frame.ReasonTooLong},
		"a book":                      {strings.Repeat("가", 1<<20), frame.ReasonTooLong},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := encodeText(tt.text, 20)
			checkRefused(t, err, frame.ErrEncode, "f", tt.want)
			if len(got) != 0 {
				t.Errorf("returned %q beside the error", got)
			}
		})
	}
}

func TestKorean_DoesNotCopyWhatCannotFit(t *testing.T) {
	book := strings.Repeat("가", 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := encodeText(book, 20)
	runtime.ReadMemStats(&after)
	checkRefused(t, err, frame.ErrEncode, "f", frame.ReasonTooLong)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("%d bytes were allocated to refuse %d", grown, len(book))
	}
}

func TestKorean_ComposesDecomposedText(t *testing.T) {
	const text = "잔액이 부족합니다"
	want, err := encodeText(text, 20)
	if err != nil {
		t.Fatal(err)
	}
	got, err := encodeText(norm.NFD.String(text), 20)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("got %x, %v, want %x", got, err, want)
	}
	full := strings.Repeat("각", 10)
	if _, err := encodeText(norm.NFD.String(full), 20); err != nil {
		t.Errorf("decomposed text that fits when composed: %v", err)
	}
}

// pairs calls f for every two bytes that x/text decodes to one character.
func pairs(f func(pair []byte, char rune, strict bool)) {
	for lead := 0x81; lead <= 0xFE; lead++ {
		for trail := 0x41; trail <= 0xFE; trail++ {
			pair := []byte{byte(lead), byte(trail)}
			decoded, err := korean.EUCKR.NewDecoder().Bytes(pair)
			char, size := utf8.DecodeRune(decoded)
			if err == nil && char != utf8.RuneError && size == len(decoded) {
				f(pair, char, lead >= 0xA1 && trail >= 0xA1)
			}
		}
	}
}

func TestKorean_HasExactlyTheCharactersOfStrictEUCKR(t *testing.T) {
	strictCount, otherCount := 0, 0
	pairs(func(pair []byte, char rune, strict bool) {
		got, err := encodeText(string(char), 2)
		read := decodeText(pair)
		if want := (frame.Text{Value: string(char), Damaged: !strict}); read != want {
			t.Errorf("%x reads %+v, want %+v", pair, read, want)
		}
		if !strict {
			otherCount++
			checkRefused(t, err, frame.ErrEncode, "f", frame.ReasonCharset)
			return
		}
		strictCount++
		if err != nil || !bytes.Equal(got, pair) {
			t.Errorf("%q is written as %x, %v, want %x", char, got, err, pair)
		}
	})
	if strictCount != 8226 || otherCount != 17048-8226 {
		t.Errorf("%d strict and %d other pairs", strictCount, otherCount)
	}
}

func TestKorean_ReadsDamagedTextWithoutAnError(t *testing.T) {
	const bad = "�"
	tests := map[string]struct {
		in   string
		want frame.Text
	}{
		"empty":                    {"    ", frame.Text{}},
		"padding is no text":       {"\xb0\xa1a  ", frame.Text{Value: "가a"}},
		"leading space":            {" \xb0\xa1", frame.Text{Value: " 가"}},
		"NUL":                      {"a\x00b", frame.Text{Value: "a" + bad + "b", Damaged: true}},
		"substitute":               {"a\x1a", frame.Text{Value: "a" + bad, Damaged: true}},
		"escape":                   {"\x1b[2J", frame.Text{Value: bad + "[2J", Damaged: true}},
		"line feed":                {"a\nb", frame.Text{Value: "a" + bad + "b", Damaged: true}},
		"DEL":                      {"a\x7f", frame.Text{Value: "a" + bad, Damaged: true}},
		"C1":                       {"a\x80\x85 b", frame.Text{Value: "a" + bad + bad + " b", Damaged: true}},
		"0xFF":                     {"a\xff", frame.Text{Value: "a" + bad, Damaged: true}},
		"cut at the end":           {"\xb0\xa1\xb0", frame.Text{Value: "가" + bad, Damaged: true}},
		"cut before padding":       {"\xb0\xa1\xb0  ", frame.Text{Value: "가" + bad, Damaged: true}},
		"cut before a digit":       {"\xb01", frame.Text{Value: bad + "1", Damaged: true}},
		"cut before a control":     {"\xb0\x00a", frame.Text{Value: bad + "a", Damaged: true}},
		"unassigned pair":          {"\xc9\xa1a", frame.Text{Value: bad + "a", Damaged: true}},
		"CP949 is readable":        {"\x94\xee\xb0\xa1", frame.Text{Value: "뷁가", Damaged: true}},
		"CP949 with an ASCII byte": {"\x8cc", frame.Text{Value: "똠", Damaged: true}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := decodeText([]byte(tt.in)); got != tt.want {
				t.Errorf("got %+q %v, want %+q %v", got.Value, got.Damaged, tt.want.Value, tt.want.Damaged)
			}
		})
	}
}

func TestKorean_MasksAnAccountThatTheCoreRepeats(t *testing.T) {
	for in, want := range map[string]string{
		"12345678901234":                      "**************",
		"\xb0\xe8\xc1\xc2 1234567":            "계좌 *******",
		"\xa3\xb1\xa3\xb2\xa3\xb3\xa3\xb4567": "*******",
	} {
		if got := decodeText([]byte(in)); got.Value != want {
			t.Errorf("%x reads %q, want %q", in, got.Value, want)
		}
	}
}

func FuzzKorean_TextIsAlwaysSafeToShow(f *testing.F) {
	for _, seed := range []string{"", "ok", "\xb0\xa1", "\x94\xee1234567", "\xa3\xb1\x00\x80\xff\xb0"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, field []byte) {
		if len(field) > frame.MaxText {
			return
		}
		before := bytes.Clone(field)
		got := decodeText(field)
		if !bytes.Equal(field, before) {
			t.Fatalf("reading changed the frame")
		}
		run := 0
		for _, r := range got.Value {
			if unicode.IsControl(r) {
				t.Fatalf("control character in %q", got.Value)
			}
			if run++; !unicode.IsDigit(r) {
				run = 0
			}
			if run >= 7 {
				t.Fatalf("long run of digits in %q", got.Value)
			}
		}
		if !utf8.ValidString(got.Value) {
			t.Fatalf("%q is not UTF-8", got.Value)
		}
		if !got.Damaged && strings.ContainsRune(got.Value, utf8.RuneError) {
			t.Fatalf("%q is not flagged", got.Value)
		}
		if encoded, err := encodeText(got.Value, frame.MaxText); (err != nil) != got.Damaged {
			t.Fatalf("%+v is written as %x, %v", got, encoded, err)
		}
	})
}

func TestKorean_MayBeUsedByManyAtOnce(t *testing.T) {
	texts := []string{"정상처리", "잔액부족", "취소완료", "계좌없음"}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			text := texts[i%len(texts)]
			for range 500 {
				encoded, err := encodeText(text, 20)
				if got := decodeText(encoded); err != nil || got.Value != text {
					t.Errorf("%q became %q, %v", text, got.Value, err)
					return
				}
			}
		})
	}
	wait.Wait()
}
