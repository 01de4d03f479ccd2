package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

const (
	kindText   = "KIND_X"
	kindDigits = "KIND_N"
	kindKorean = "KIND_K"
	kindNone   = "KIND_UNSPECIFIED"

	meaningMTI           = "MEANING_MTI"
	meaningTransactionID = "MEANING_TRANSACTION_ID"
	meaningAccount       = "MEANING_ACCOUNT"
	meaningWon           = "MEANING_WON"
	meaningResponseCode  = "MEANING_RESPONSE_CODE"
	meaningConstant      = "MEANING_CONSTANT"
	meaningFiller        = "MEANING_FILLER"
	meaningValue         = "MEANING_VALUE"
	meaningDate          = "MEANING_DATE"
	meaningRecordCount   = "MEANING_RECORD_COUNT"
	meaningTotalLength   = "MEANING_TOTAL_LENGTH"
	meaningRecords       = "MEANING_RECORDS"
)

// What package frame can hold; the same numbers as there and in account.
const (
	mtiWidth     = 4
	codeWidth    = 4
	accountWidth = 14
	maxDigits    = 18
	maxKorean    = 128
	maxWidth     = 9999
	dateWidth    = 8
	maxPrefix    = 4
)

// telegram is a message that has the telegram option.
type telegram struct {
	name   string
	doc    string
	mti    string
	length int // of the header, if it has records
	prefix int // digits before it; 0 for none
	fields []field
}

// record is a message that has the record option.
type record struct {
	name   string
	doc    string
	length int
	fields []field
}

// field is one field of a telegram or of a record.
type field struct {
	name     string
	doc      string
	proto    string // its type in the .proto file
	offset   int    // the prefix of a telegram counted
	width    int
	kind     string
	meaning  string
	fixed    string
	whenDone bool
	maxCount int
	record   *record // of MEANING_RECORDS
}

// isAnswer reports whether a telegram answers one.
func (t telegram) isAnswer() bool { return t.count(meaningResponseCode) > 0 }

func (t telegram) count(meaning string) int { return count(t.fields, meaning) }

// records is the field of the records; false if there is none.
func (t telegram) records() (field, bool) {
	for _, f := range t.fields {
		if f.meaning == meaningRecords {
			return f, true
		}
	}
	return field{}, false
}

// flat is the fields but that of the records.
func (t telegram) flat() []field {
	return slices.DeleteFunc(slices.Clone(t.fields), func(f field) bool { return f.meaning == meaningRecords })
}

func count(fields []field, meaning string) int {
	n := 0
	for _, f := range fields {
		if f.meaning == meaning {
			n++
		}
	}
	return n
}

// layouts is what a file declares.
type layouts struct {
	telegrams []telegram
	records   []*record
}

// readLayouts reads and checks the telegrams and the records of a file, in its
// order.
func readLayouts(options optionReader, file *protogen.File) (layouts, error) {
	var all layouts
	byName := map[protoreflect.FullName]*record{}
	for _, message := range file.Messages {
		r, ok, err := readRecord(options, message)
		if err == nil && ok {
			err = r.check()
		}
		if err != nil {
			return layouts{}, fmt.Errorf("%s: %w", message.Desc.Name(), err)
		}
		if ok {
			all.records = append(all.records, r)
			byName[message.Desc.FullName()] = r
		}
	}
	for _, message := range file.Messages {
		if byName[message.Desc.FullName()] != nil {
			continue
		}
		t, ok, err := readTelegram(options, message, byName)
		if err == nil && ok {
			err = t.check()
		}
		if err != nil {
			return layouts{}, fmt.Errorf("%s: %w", message.Desc.Name(), err)
		}
		if ok {
			all.telegrams = append(all.telegrams, t)
		}
	}
	return all, all.checkTogether()
}

func readRecord(options optionReader, message *protogen.Message) (*record, bool, error) {
	set, ok, err := options.read(message.Desc.Options(), &descriptorpb.MessageOptions{}, recordOption)
	if err != nil || !ok {
		return nil, false, err
	}
	_, both, err := options.read(message.Desc.Options(), &descriptorpb.MessageOptions{}, telegramOption)
	if err != nil {
		return nil, false, err
	}
	if both {
		return nil, false, errors.New("cannot be a telegram and a record")
	}
	r := &record{name: message.GoIdent.GoName, doc: clean(message.Comments.Leading), length: set.number("length")}
	r.fields, err = readFields(options, message, 0)
	return r, true, err
}

func readTelegram(options optionReader, message *protogen.Message, records map[protoreflect.FullName]*record) (telegram, bool, error) {
	set, ok, err := options.read(message.Desc.Options(), &descriptorpb.MessageOptions{}, telegramOption)
	if err != nil {
		return telegram{}, false, err
	}
	if !ok {
		return telegram{}, false, checkNoTelegram(options, message)
	}
	t := telegram{
		name:   message.GoIdent.GoName,
		doc:    clean(message.Comments.Leading),
		mti:    set.text("mti"),
		length: set.number("length"),
		prefix: set.number("prefix"),
	}
	if t.fields, err = readFields(options, message, t.prefix); err != nil {
		return telegram{}, false, err
	}
	for i, member := range message.Fields {
		if member.Message != nil {
			t.fields[i].record = records[member.Message.Desc.FullName()]
		}
	}
	return t, true, nil
}

// readFields reads the fields of a message, the first of which stands at offset.
func readFields(options optionReader, message *protogen.Message, offset int) ([]field, error) {
	fields := make([]field, 0, len(message.Fields))
	for _, member := range message.Fields {
		f, err := readField(options, member)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", member.Desc.Name(), err)
		}
		f.offset = offset
		offset += f.width
		fields = append(fields, f)
	}
	return fields, nil
}

// checkNoTelegram refuses a message that is laid out and lacks the option that
// would make it a telegram: it would be left out without a word.
func checkNoTelegram(options optionReader, message *protogen.Message) error {
	for _, member := range message.Fields {
		_, ok, err := options.read(member.Desc.Options(), &descriptorpb.FieldOptions{}, layoutOption)
		if err != nil {
			return err
		}
		if ok {
			return fmt.Errorf("%s has a layout, but the message has no telegram option", member.Desc.Name())
		}
	}
	return nil
}

func readField(options optionReader, member *protogen.Field) (field, error) {
	set, ok, err := options.read(member.Desc.Options(), &descriptorpb.FieldOptions{}, layoutOption)
	if err != nil {
		return field{}, err
	}
	if !ok {
		return field{}, errors.New("has no layout")
	}
	return field{
		name:     string(member.Desc.Name()),
		doc:      clean(member.Comments.Leading),
		proto:    protoType(member.Desc),
		width:    set.number("width"),
		kind:     set.enum("kind"),
		meaning:  set.enum("meaning"),
		fixed:    set.text("fixed"),
		whenDone: set.flag("when_done"),
		maxCount: set.number("max_count"),
	}, nil
}

// protoType is the type of a field in words.
func protoType(member protoreflect.FieldDescriptor) string {
	kind := member.Kind().String()
	switch {
	case member.IsMap():
		return "map"
	case member.IsList():
		return "repeated " + kind
	case member.HasOptionalKeyword(), member.ContainingOneof() != nil:
		return "optional " + kind
	}
	return kind
}

// clean is a comment as plain text with its line breaks.
func clean(comments protogen.Comments) string {
	lines := strings.Split(strings.TrimSpace(string(comments)), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}
