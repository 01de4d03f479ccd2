package main

import (
	"errors"
	"fmt"
	"slices"
)

// form is how a meaning may be written; a zero width allows any.
type form struct {
	kind  string
	width int
	proto string
}

// forms is the closed set of meanings and of the forms of each.
var forms = map[string][]form{
	meaningMTI:           {{kindText, mtiWidth, "string"}},
	meaningTransactionID: {{kindText, 0, "string"}},
	meaningAccount:       {{kindDigits, accountWidth, "string"}},
	meaningWon:           {{kindDigits, 0, "int64"}},
	meaningResponseCode:  {{kindText, codeWidth, "string"}},
	meaningConstant:      {{kindText, 0, "string"}},
	meaningFiller:        {{kindText, 0, "string"}},
	meaningValue:         {{kindText, 0, "string"}, {kindKorean, 0, "string"}, {kindDigits, 0, "int64"}},
	meaningDate:          {{kindText, dateWidth, "string"}},
	meaningRecordCount:   {{kindDigits, 0, "int64"}},
	meaningTotalLength:   {{kindDigits, 0, "int64"}},
	meaningRecords:       {{kindNone, 0, "repeated message"}},
}

// inRecords are the meanings that a field of a record may have.
var inRecords = []string{
	meaningTransactionID, meaningAccount, meaningWon, meaningConstant, meaningFiller, meaningValue, meaningDate,
}

// widest is the widest field of each kind.
var widest = map[string]int{kindText: maxWidth, kindDigits: maxDigits, kindKorean: maxKorean, kindNone: maxWidth}

// check refuses a telegram that could not be written as its layout says.
func (t telegram) check() error {
	if !isDigits(t.mti) || len(t.mti) != mtiWidth {
		return fmt.Errorf("mti must be four digits, is %q", t.mti)
	}
	if len(t.fields) == 0 || t.fields[0].meaning != meaningMTI || t.count(meaningMTI) != 1 {
		return errors.New("must have one field of MEANING_MTI, the first")
	}
	if t.prefix < 0 || t.prefix > maxPrefix {
		return fmt.Errorf("prefix must be at most %d, is %d", maxPrefix, t.prefix)
	}
	if n := t.count(meaningTransactionID); n != 1 && (t.prefix == 0 || n > 1) {
		return fmt.Errorf("must have one field of MEANING_TRANSACTION_ID, has %d", n)
	}
	if n := t.count(meaningResponseCode); n > 1 {
		return fmt.Errorf("must have at most one field of MEANING_RESPONSE_CODE, has %d", n)
	}
	if err := checkFields(t.fields, t.flat(), t.length, t.isAnswer()); err != nil {
		return err
	}
	return t.checkRecords()
}

// check refuses a record that could not be written as its layout says.
func (r *record) check() error {
	for _, f := range r.fields {
		if !slices.Contains(inRecords, f.meaning) {
			return fmt.Errorf("%s: %s is not for a record", f.name, f.meaning)
		}
	}
	return checkFields(r.fields, r.fields, r.length, false)
}

// checkFields checks each field, and that those which are flat add up to a
// length.
func checkFields(all, flat []field, length int, inAnswer bool) error {
	for _, f := range all {
		if err := f.check(inAnswer); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
	}
	width := 0
	for _, f := range flat {
		width += f.width
	}
	if width != length {
		return fmt.Errorf("widths add up to %d, length is %d", width, length)
	}
	return nil
}

// checkRecords refuses a telegram of variable length that could not tell how
// long it is.
func (t telegram) checkRecords() error {
	f, has := t.records()
	want := 0
	if has {
		want = 1
	}
	for _, meaning := range []string{meaningRecords, meaningRecordCount, meaningTotalLength} {
		if n := t.count(meaning); n != want {
			return fmt.Errorf("must have %d field of %s, has %d", want, meaning, n)
		}
	}
	longest := t.length + f.maxCount*f.width
	switch {
	case t.prefix > 0 && longest >= power10(t.prefix):
		return fmt.Errorf("%d digits cannot tell a length of %d", t.prefix, longest)
	case !has:
		return nil
	case t.prefix == 0 || !t.isAnswer():
		return errors.New("records need a prefix and a response code")
	case t.fields[len(t.fields)-1].meaning != meaningRecords:
		return fmt.Errorf("%s must be the last field", f.name)
	case f.record == nil:
		return fmt.Errorf("%s: its message has no record option", f.name)
	case f.record.length != f.width:
		return fmt.Errorf("%s: width is %d, a %s has %d", f.name, f.width, f.record.name, f.record.length)
	}
	for _, told := range t.fields {
		most, tells := map[string]int{meaningRecordCount: f.maxCount, meaningTotalLength: longest}[told.meaning]
		if tells && most >= power10(told.width) {
			return fmt.Errorf("%s: %d digits cannot tell %d", told.name, told.width, most)
		}
	}
	return nil
}

// power10 is the first number that has more digits than n, 1 to 18.
func power10(n int) int {
	power := 1
	for range n {
		power *= 10
	}
	return power
}

func (f field) check(inAnswer bool) error {
	if f.width < 1 || f.width > maxWidth {
		return fmt.Errorf("width must be 1 to %d, is %d", maxWidth, f.width)
	}
	if !f.hasForm() {
		return fmt.Errorf("%s cannot be %s with width %d and type %s", f.meaning, f.kind, f.width, f.proto)
	}
	if limit := widest[f.kind]; f.width > limit {
		return fmt.Errorf("%s is at most %d wide, is %d", f.kind, limit, f.width)
	}
	if err := f.checkFixed(); err != nil {
		return err
	}
	switch {
	case f.meaning == meaningRecords && (f.maxCount < 1 || f.maxCount > maxWidth):
		return fmt.Errorf("max_count must be 1 to %d, is %d", maxWidth, f.maxCount)
	case f.meaning != meaningRecords && f.maxCount != 0:
		return fmt.Errorf("max_count is not for %s", f.meaning)
	}
	if !f.whenDone {
		return nil
	}
	if !inAnswer {
		return errors.New("when_done needs a response code in the telegram")
	}
	if f.meaning != meaningValue && f.meaning != meaningWon {
		return fmt.Errorf("when_done is not for %s", f.meaning)
	}
	return nil
}

func (f field) hasForm() bool {
	for _, allowed := range forms[f.meaning] {
		if f.kind == allowed.kind && f.proto == allowed.proto && (allowed.width == 0 || f.width == allowed.width) {
			return true
		}
	}
	return false
}

func (f field) checkFixed() error {
	if f.meaning != meaningConstant {
		if f.fixed != "" {
			return fmt.Errorf("fixed is not for %s", f.meaning)
		}
		return nil
	}
	if f.fixed == "" || len(f.fixed) > f.width {
		return fmt.Errorf("fixed must be 1 to %d characters, is %q", f.width, f.fixed)
	}
	for i := range len(f.fixed) {
		if f.fixed[i] <= ' ' || f.fixed[i] > '~' {
			return fmt.Errorf("fixed must be printable ASCII without spaces, is %q", f.fixed)
		}
	}
	return nil
}

// checkTogether refuses telegrams that could not be told apart on one
// connection, and records that stand in none.
func (l layouts) checkTogether() error {
	byMTI := map[string]string{}
	byAnswer := map[bool]telegram{}
	prefix := 0
	unused := slices.Clone(l.records)
	for _, t := range l.telegrams {
		if other, ok := byMTI[t.mti]; ok {
			return fmt.Errorf("%s: mti %s is that of %s", t.name, t.mti, other)
		}
		byMTI[t.mti] = t.name
		if f, has := t.records(); has {
			unused = slices.DeleteFunc(unused, func(r *record) bool { return r == f.record })
		}
		if t.prefix > 0 {
			if prefix != 0 && t.prefix != prefix {
				return fmt.Errorf("%s: prefix is %d, that of another telegram is %d", t.name, t.prefix, prefix)
			}
			prefix = t.prefix
			continue
		}
		first, ok := byAnswer[t.isAnswer()]
		if !ok {
			byAnswer[t.isAnswer()] = t
			continue
		}
		if t.length != first.length {
			return fmt.Errorf("%s: length is %d, that of %s is %d", t.name, t.length, first.name, first.length)
		}
	}
	for _, t := range l.telegrams {
		// Mask could not tell the two apart, and would show an account.
		if t.prefix == 0 && t.mti == fmt.Sprintf("%0*d", prefix, t.length-prefix) {
			return fmt.Errorf("%s: mti %s is also the prefix of a frame of its length", t.name, t.mti)
		}
	}
	if len(unused) > 0 {
		return fmt.Errorf("%s: no telegram has such records", unused[0].name)
	}
	return nil
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}
