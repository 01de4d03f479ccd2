package frame_test

import (
	"testing"
	"time"

	"github.com/gwanmun/gwanmun/pkg/frame"
	"github.com/gwanmun/gwanmun/pkg/tranid"
)

// shape has 4 digits of prefix, 8 bytes of header and up to 3 records of 2.
var shape = frame.Listing{Prefix: 4, Header: 8, Record: 2, Max: 3}

// list is a frame of this shape with records of "ab".
func list(records int) ([]byte, error) {
	e := frame.AppendListing([]byte("before"), shape, records)
	e.Number("record_count", int64(records), 3)
	e.Number("total_length", int64(shape.Body(records)), 5)
	for range records {
		e.Text("record", "ab", 2)
	}
	return e.Finish(shape.Length(records))
}

func TestAppendListing_TellsTheLengthBeforeTheFrame(t *testing.T) {
	for records, want := range []string{"before0008" + "00000008", "before0010" + "00100010ab", "before0012" + "00200012abab", "before0014" + "00300014ababab"} {
		if got, err := list(records); err != nil || string(got) != want {
			t.Errorf("%d records: %q, %v, want %q", records, got, err, want)
		}
	}
}

func TestAppendListing_RefusesMoreRecordsThanTheTelegramHas(t *testing.T) {
	for _, records := range []int{4, 1 << 40} {
		e := frame.AppendListing([]byte("before"), shape, records)
		e.Text("record", "ab", 2)
		got, err := e.Finish(shape.Length(records))
		checkRefused(t, err, frame.ErrEncode, "records", frame.ReasonTooMany)
		if string(got) != "before" {
			t.Errorf("returned %q, want dst as it was", got)
		}
	}
}

func TestDecodeListing_WantsLengthAndCountToAgree(t *testing.T) {
	tests := map[string]struct {
		in, field string
		reason    frame.Reason
	}{
		"none":                       {"000800000008", "", ""},
		"all":                        {"001400300014ababab", "", ""},
		"nothing at all":             {"", "frame", frame.ReasonLength},
		"a prefix alone":             {"0008", "frame", frame.ReasonLength},
		"a header cut short":         {"000700000007"[:11], "frame", frame.ReasonLength},
		"half a record":              {"000900100009a", "frame", frame.ReasonLength},
		"more records than there be": {"001600400016abababab", "frame", frame.ReasonLength},
		"a prefix that says more":    {"001000100008", "frame", frame.ReasonLength},
		"a prefix that says less":    {"000800100010ab", "frame", frame.ReasonLength},
		"a prefix of letters":        {"00xx00000008", "frame", frame.ReasonLength},
		"a prefix with a sign":       {"+00800000008", "frame", frame.ReasonLength},
		"a prefix of spaces":         {"   800000008", "frame", frame.ReasonLength},
		"a count too high":           {"001000200010ab", "record_count", frame.ReasonCount},
		"a count too low":            {"001000000010ab", "record_count", frame.ReasonCount},
		"a count of letters":         {"0010x0100010ab", "record_count", frame.ReasonNotDigits},
		"a total with the prefix":    {"001000100014ab", "total_length", frame.ReasonLength},
		"a total too short":          {"001000100009ab", "total_length", frame.ReasonLength},
		"a total of letters":         {"0010001000i0ab", "total_length", frame.ReasonNotDigits},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := frame.DecodeListing([]byte(tt.in), shape)
			d.RecordCount("record_count", 4, 3)
			d.TotalLength("total_length", 7, 5)
			records := d.Records(frame.Done)
			if tt.reason == "" {
				if want := (len(tt.in) - 12) / 2; d.Err() != nil || records != want {
					t.Errorf("%d records, %v, want %d", records, d.Err(), want)
				}
				return
			}
			checkRefused(t, d.Err(), frame.ErrDecode, tt.field, tt.reason)
			if records != 0 {
				t.Errorf("%d records of a refused frame", records)
			}
		})
	}
}

func TestDecodeListing_HasNoRecordsBesideADecline(t *testing.T) {
	d := frame.DecodeListing([]byte("001000100010ab"), shape)
	if n := d.Records("0051"); n != 0 {
		t.Errorf("%d records beside a decline", n)
	}
}

func TestDate_IsADayOfTheCalendar(t *testing.T) {
	day := tranid.DateOf(time.Date(2026, 3, 1, 0, 30, 0, 0, tranid.Seoul))
	got, err := write(8, func(e *frame.Encoder) { e.Date("f", day) })
	if err != nil || string(got) != "20260301" {
		t.Errorf("wrote %q, %v", got, err)
	}
	d := frame.Decode(got, 8)
	if back := d.Date("f", 0); back != day || d.Err() != nil {
		t.Errorf("read %v, %v", back, d.Err())
	}
	_, err = write(8, func(e *frame.Encoder) { e.Date("f", tranid.Date{}) })
	checkRefused(t, err, frame.ErrEncode, "f", frame.ReasonEmpty)
	for _, in := range []string{"20260230", "2026-3-1", "19991231", "        ", "00000000", "2026030x", "+2026030", "\xff\xff\xff\xff\xff\xff\xff\xff"} {
		d := frame.Decode([]byte(in), 8)
		if back := d.Date("f", 0); !back.IsZero() {
			t.Errorf("%q is read as %v", in, back)
		}
		checkRefused(t, d.Err(), frame.ErrDecode, "f", frame.ReasonNotDate)
	}
}
