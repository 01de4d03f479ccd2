package main

import (
	"errors"
	"fmt"
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
}

// widest is the widest field of each kind.
var widest = map[string]int{kindText: maxWidth, kindDigits: maxDigits, kindKorean: maxKorean}

// check refuses a telegram that could not be written as its layout says.
func (t telegram) check() error {
	if !isDigits(t.mti) || len(t.mti) != mtiWidth {
		return fmt.Errorf("mti must be four digits, is %q", t.mti)
	}
	if len(t.fields) == 0 || t.fields[0].meaning != meaningMTI || t.count(meaningMTI) != 1 {
		return errors.New("must have one field of MEANING_MTI, the first")
	}
	if n := t.count(meaningTransactionID); n != 1 {
		return fmt.Errorf("must have one field of MEANING_TRANSACTION_ID, has %d", n)
	}
	if n := t.count(meaningResponseCode); n > 1 {
		return fmt.Errorf("must have at most one field of MEANING_RESPONSE_CODE, has %d", n)
	}
	width := 0
	for _, f := range t.fields {
		if err := f.check(t.isAnswer()); err != nil {
			return fmt.Errorf("%s: %w", f.name, err)
		}
		width += f.width
	}
	if width != t.length {
		return fmt.Errorf("widths add up to %d, length is %d", width, t.length)
	}
	return nil
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
// connection.
func checkTogether(telegrams []telegram) error {
	byMTI := map[string]string{}
	byAnswer := map[bool]telegram{}
	for _, t := range telegrams {
		if other, ok := byMTI[t.mti]; ok {
			return fmt.Errorf("%s: mti %s is that of %s", t.name, t.mti, other)
		}
		byMTI[t.mti] = t.name
		first, ok := byAnswer[t.isAnswer()]
		if !ok {
			byAnswer[t.isAnswer()] = t
			continue
		}
		if t.length != first.length {
			return fmt.Errorf("%s: length is %d, that of %s is %d", t.name, t.length, first.name, first.length)
		}
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
