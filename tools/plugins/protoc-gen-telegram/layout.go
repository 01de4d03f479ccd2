package main

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/descriptorpb"
)

const (
	kindText   = "KIND_X"
	kindDigits = "KIND_N"
	kindKorean = "KIND_K"

	meaningMTI           = "MEANING_MTI"
	meaningTransactionID = "MEANING_TRANSACTION_ID"
	meaningAccount       = "MEANING_ACCOUNT"
	meaningWon           = "MEANING_WON"
	meaningResponseCode  = "MEANING_RESPONSE_CODE"
	meaningConstant      = "MEANING_CONSTANT"
	meaningFiller        = "MEANING_FILLER"
	meaningValue         = "MEANING_VALUE"
)

// What package frame can hold; the same numbers as there and in account.
const (
	mtiWidth     = 4
	codeWidth    = 4
	accountWidth = 14
	maxDigits    = 18
	maxKorean    = 128
	maxWidth     = 9999
)

// telegram is a message that has the telegram option.
type telegram struct {
	name   string
	doc    string
	mti    string
	length int
	fields []field
}

// field is one field of a telegram.
type field struct {
	name     string
	doc      string
	proto    string // its type in the .proto file
	offset   int
	width    int
	kind     string
	meaning  string
	fixed    string
	whenDone bool
}

// isAnswer reports whether a telegram answers one.
func (t telegram) isAnswer() bool { return t.count(meaningResponseCode) > 0 }

func (t telegram) count(meaning string) int {
	n := 0
	for _, f := range t.fields {
		if f.meaning == meaning {
			n++
		}
	}
	return n
}

// readTelegrams reads and checks the telegrams of a file, in its order.
func readTelegrams(options optionReader, file *protogen.File) ([]telegram, error) {
	var telegrams []telegram
	for _, message := range file.Messages {
		t, ok, err := readTelegram(options, message)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", message.Desc.Name(), err)
		}
		if !ok {
			continue
		}
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", t.name, err)
		}
		telegrams = append(telegrams, t)
	}
	return telegrams, checkTogether(telegrams)
}

func readTelegram(options optionReader, message *protogen.Message) (telegram, bool, error) {
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
	}
	offset := 0
	for _, member := range message.Fields {
		f, err := readField(options, member)
		if err != nil {
			return telegram{}, false, fmt.Errorf("%s: %w", member.Desc.Name(), err)
		}
		f.offset = offset
		offset += f.width
		t.fields = append(t.fields, f)
	}
	return t, true, nil
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
	protoType := member.Desc.Kind().String()
	if member.Desc.Cardinality().String() != "optional" || member.Oneof != nil {
		protoType = "repeated or optional " + protoType
	}
	return field{
		name:     string(member.Desc.Name()),
		doc:      clean(member.Comments.Leading),
		proto:    protoType,
		width:    set.number("width"),
		kind:     set.enum("kind"),
		meaning:  set.enum("meaning"),
		fixed:    set.text("fixed"),
		whenDone: set.flag("when_done"),
	}, nil
}

// clean is a comment as plain text with its line breaks.
func clean(comments protogen.Comments) string {
	lines := strings.Split(strings.TrimSpace(string(comments)), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	return strings.Join(lines, "\n")
}
