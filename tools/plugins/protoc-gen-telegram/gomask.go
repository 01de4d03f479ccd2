package main

import (
	"strconv"

	"google.golang.org/protobuf/compiler/protogen"
)

// writeMask writes Mask, which knows a telegram by its type and its length
// together: where an account stands follows from both.
func writeMask(g *protogen.GeneratedFile, telegrams []telegram) {
	g.P("// Mask returns a copy of a frame that may be shown: account numbers, long runs")
	g.P("// of digits in text and digits in fillers are asterisks. Of bytes that are no")
	g.P("// telegram's frame every digit behind the first four bytes is hidden.")
	g.P("func Mask(b []byte) []byte {")
	g.P("out := ", bytesPath.Ident("Clone"), "(b)")
	g.P("switch mti := MTI(b); {")
	listings := false
	for _, t := range telegrams {
		if t.prefix > 0 {
			listings = true
			continue
		}
		g.P("case mti == ", t.name, "MTI && len(b) == ", t.name, "Length:")
		writeHide(g, t.fields, "")
	}
	if listings {
		g.P("case maskListing(out):")
	}
	g.P("default:")
	g.P(framePath.Ident("HideDigits"), "(out[min(", mtiWidth, ", len(out)):])")
	g.P("}")
	g.P("return out")
	g.P("}")
	g.P()
	if listings {
		writeMaskListing(g, telegrams)
	}
}

func writeMaskListing(g *protogen.GeneratedFile, telegrams []telegram) {
	g.P("// maskListing is Mask in place, of a telegram of the listing port; false, and")
	g.P("// nothing is done, if it is none.")
	g.P("func maskListing(out []byte) bool {")
	g.P("if !", framePath.Ident("HasPrefix"), "(out, PrefixLength) {")
	g.P("return false")
	g.P("}")
	g.P("switch MTI(out[PrefixLength:]) {")
	for _, t := range telegrams {
		if t.prefix == 0 {
			continue
		}
		g.P("case ", t.name, "MTI:")
		f, has := t.records()
		if has {
			g.P("if _, ok := ", t.shape(), ".Records(len(out)); !ok {")
		} else {
			g.P("if len(out) != ", t.name, "Length {")
		}
		g.P("return false")
		g.P("}")
		writeHide(g, t.flat(), "")
		if has {
			g.P("for at := ", t.name, "MinLength; at < len(out); at += ", f.record.name, "Length {")
			writeHide(g, f.record.fields, "at+")
			g.P("}")
		}
	}
	g.P("default:")
	g.P("return false")
	g.P("}")
	g.P("return true")
	g.P("}")
	g.P()
}

// writeHide writes what hides the fields that must not be shown.
func writeHide(g *protogen.GeneratedFile, fields []field, at string) {
	for _, f := range fields {
		span := "(out[" + at + strconv.Itoa(f.offset) + ":" + at + strconv.Itoa(f.offset+f.width) + "])"
		switch {
		case f.meaning == meaningAccount:
			g.P(framePath.Ident("HideSecret"), span)
		case f.meaning == meaningFiller:
			g.P(framePath.Ident("HideDigits"), span)
		case f.kind == kindKorean:
			g.P(framePath.Ident("HideLongRuns"), span)
		}
	}
}
