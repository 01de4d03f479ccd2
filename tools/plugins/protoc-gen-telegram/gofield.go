package main

import (
	"strings"

	"google.golang.org/protobuf/compiler/protogen"
)

// isValue reports whether a field differs from frame to frame, and so is one of
// the struct too. What is told of the records follows from them.
func (f field) isValue() bool {
	switch f.meaning {
	case meaningMTI, meaningConstant, meaningFiller, meaningRecordCount, meaningTotalLength:
		return false
	}
	return true
}

// padded is the constant text of a field in its full width.
func (f field) padded() string { return f.fixed + strings.Repeat(" ", f.width-len(f.fixed)) }

// method is the method of frame.Encoder and frame.Decoder for the field.
func (f field) method() string {
	switch f.meaning {
	case meaningTransactionID:
		return "TransactionID"
	case meaningAccount:
		return "Account"
	case meaningWon:
		return "Won"
	case meaningResponseCode:
		return "ResponseCode"
	case meaningDate:
		return "Date"
	case meaningRecordCount:
		return "RecordCount"
	case meaningTotalLength:
		return "TotalLength"
	}
	switch f.kind {
	case kindDigits:
		return "Number"
	case kindKorean:
		return "Korean"
	}
	return "Text"
}

func (f field) goType(g *protogen.GeneratedFile) string {
	if f.record != nil {
		return "[]" + f.record.name
	}
	switch f.method() {
	case "Date":
		return g.QualifiedGoIdent(tranidPath.Ident("Date"))
	case "TransactionID":
		return g.QualifiedGoIdent(tranidPath.Ident("ID"))
	case "Account":
		return g.QualifiedGoIdent(accountPath.Ident("Number"))
	case "Won":
		return g.QualifiedGoIdent(accountPath.Ident("Won"))
	case "Korean":
		return g.QualifiedGoIdent(framePath.Ident("Text"))
	case "Number":
		return "int64"
	}
	return "string"
}

// goName is the field's name in Go: tran_id is TranID.
func (f field) goName() string {
	var name strings.Builder
	for word := range strings.SplitSeq(f.name, "_") {
		switch word {
		case "":
		case "id":
			name.WriteString("ID")
		default:
			name.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	return name.String()
}

// responseCode is the field of the response code of an answer.
func (t telegram) responseCode() field {
	for _, f := range t.fields {
		if f.meaning == meaningResponseCode {
			return f
		}
	}
	return field{}
}
