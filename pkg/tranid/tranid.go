// Package tranid makes the transaction IDs by which gateway and core know a
// transaction: `GWMN`, `U`, the business day in Asia/Seoul and nine digits.
//
// It stands at the bottom of the house. The numbers of a day are given out in
// blocks by whoever implements Blocks (the ledger), so that any number of
// instances share a day without meeting.
package tranid

import (
	"errors"
	"fmt"
	"time"
)

const (
	// Length is the number of characters of an ID.
	Length = 22
	// MaxNumber is the last number of a day.
	MaxNumber = 999_999_999

	prefix  = "GWMNU"
	dateLen = 8
)

// Seoul is the bank's time zone. Korea has no daylight saving time, so a fixed
// offset is exact and needs no time zone database.
var Seoul = time.FixedZone("Asia/Seoul", 9*60*60)

// ErrID says that a text is not a transaction ID.
var ErrID = errors.New("transaction ID must be GWMNU, a date and 9 digits")

var errDate = errors.New("date must be yyyy-mm-dd, from 2000 on")

// ID is a transaction ID of 22 ASCII characters.
type ID string

// Parse checks the form of a transaction ID and that its date exists.
func Parse(s string) (ID, error) {
	if _, err := parse(s); err != nil {
		return "", err
	}
	return ID(s), nil
}

// parse is the day of an ID.
func parse(s string) (Date, error) {
	if len(s) != Length || s[:len(prefix)] != prefix {
		return Date{}, ErrID
	}
	if _, ok := number(s[len(prefix)+dateLen:]); !ok {
		return Date{}, ErrID
	}
	day, err := ParseDate(s[len(prefix) : len(prefix)+dateLen])
	if err != nil {
		return Date{}, ErrID
	}
	return day, nil
}

// number reads ASCII digits, and nothing else.
func number(s string) (n int, ok bool) {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}

// New is the ID with this number of this day. The number must be within
// 0 to MaxNumber.
func New(day Date, number int64) ID {
	if number < 0 || number > MaxNumber {
		panic(fmt.Sprintf("transaction number %d out of range", number))
	}
	var id [Length]byte
	copy(id[:], prefix)
	putDigits(id[len(prefix):len(prefix)+dateLen], int64((day.year*100+int(day.month))*100+day.day))
	putDigits(id[len(prefix)+dateLen:], number)
	return ID(id[:])
}

// putDigits fills the field with a number, right-aligned behind zeros.
func putDigits(field []byte, number int64) {
	for i := len(field) - 1; i >= 0; i-- {
		field[i] = byte('0' + number%10)
		number /= 10
	}
}

// Date is the business day in the ID; the zero Date for an ID that Parse would
// refuse.
func (id ID) Date() Date {
	day, err := parse(string(id))
	if err != nil {
		return Date{}
	}
	return day
}

// Date is a business day: a calendar day in Asia/Seoul.
type Date struct {
	year  int
	month time.Month
	day   int
}

// DateOf is the business day of a moment.
func DateOf(t time.Time) Date {
	y, m, d := t.In(Seoul).Date()
	return Date{year: y, month: m, day: d}
}

// ParseDate reads yyyymmdd or yyyy-mm-dd, years 2000 to 9999.
func ParseDate(s string) (Date, error) {
	if len(s) == len(time.DateOnly) && s[4] == '-' && s[7] == '-' {
		s = s[:4] + s[5:7] + s[8:]
	}
	n, ok := number(s)
	if !ok || len(s) != dateLen {
		return Date{}, errDate
	}
	d := Date{year: n / 10000, month: time.Month(n / 100 % 100), day: n % 100}
	// A day that is not comes out as another.
	if y, m, day := time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC).Date(); d.year < 2000 || d != (Date{y, m, day}) {
		return Date{}, errDate
	}
	return d, nil
}

// IsZero reports whether d is no day.
func (d Date) IsZero() bool { return d == Date{} }

// Start is the first moment of the day in Seoul.
func (d Date) Start() time.Time { return time.Date(d.year, d.month, d.day, 0, 0, 0, 0, Seoul) }

// String is yyyy-mm-dd.
func (d Date) String() string {
	text := [len(time.DateOnly)]byte{4: '-', 7: '-'}
	putDigits(text[:4], int64(d.year))
	putDigits(text[5:7], int64(d.month))
	putDigits(text[8:], int64(d.day))
	return string(text[:])
}
