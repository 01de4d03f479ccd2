package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	root         = "../../.."
	layoutPath   = "gwanmun/telegram/v1/layout.proto"
	telegramPath = "gwanmun/telegram/v1/telegram.proto"
	goPackage    = "github.com/gwanmun/gwanmun/pkg/telegram/gen;telegram"
)

func source(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(root, "proto", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// request is what a compiler would send to the plugin for this text in place of
// telegram.proto: bytes, in which our options are unknown fields.
func request(t *testing.T, telegrams string) *pluginpb.CodeGeneratorRequest {
	t.Helper()
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			Accessor: protocompile.SourceAccessorFromMap(map[string]string{
				layoutPath: source(t, layoutPath), telegramPath: telegrams,
			}),
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	files, err := compiler.Compile(context.Background(), layoutPath, telegramPath)
	if err != nil {
		t.Fatalf("the test's own .proto does not compile: %v", err)
	}
	r := &pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{layoutPath, telegramPath},
		ProtoFile: []*descriptorpb.FileDescriptorProto{
			protodesc.ToFileDescriptorProto(descriptorpb.File_google_protobuf_descriptor_proto),
		},
	}
	for _, file := range files {
		compiled := proto.CloneOf(file.(linker.Result).FileDescriptorProto())
		compiled.Options = &descriptorpb.FileOptions{GoPackage: proto.String(goPackage)}
		r.ProtoFile = append(r.ProtoFile, compiled)
	}
	wire, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	received := &pluginpb.CodeGeneratorRequest{}
	if err := proto.Unmarshal(wire, received); err != nil {
		t.Fatal(err)
	}
	return received
}

// run is the file that the plugin writes for this text, or its refusal.
func run(t *testing.T, telegrams, out string) (content string, refusal error) {
	t.Helper()
	p, err := protogen.Options{}.New(request(t, telegrams))
	if err != nil {
		t.Fatal(err)
	}
	if err := generate(p, out); err != nil {
		return "", err
	}
	response := p.Response()
	if response.Error != nil {
		t.Fatalf("what was written is no Go: %s", response.GetError())
	}
	if len(response.GetFile()) != 1 {
		t.Fatalf("wrote %d files, want 1", len(response.GetFile()))
	}
	return response.GetFile()[0].GetContent(), nil
}

func TestGenerate_WritesWhatIsCommitted(t *testing.T) {
	for out, path := range map[string]string{
		"go":   "pkg/telegram/gen/telegram.telegram.go",
		"page": "docs/telegram/telegram.md",
	} {
		t.Run(out, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join(root, path))
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				got, err := run(t, source(t, telegramPath), out)
				if err != nil {
					t.Fatal(err)
				}
				if got != string(want) {
					t.Fatalf("%s is not what telegram.proto gives: run make generate", path)
				}
			}
		})
	}
}

// validLayout is what the refused layouts differ from in one place.
const validLayout = `syntax = "proto3";
package gwanmun.telegram.v1;
import "gwanmun/telegram/v1/layout.proto";

message Ask {
  option (telegram) = {mti: "0100" length: 14};
  string mti = 1 [(layout) = {width: 4 kind: KIND_X meaning: MEANING_MTI}];
  string tran_id = 2 [(layout) = {width: 5 kind: KIND_X meaning: MEANING_TRANSACTION_ID}];
  string tx_code = 3 [(layout) = {width: 4 kind: KIND_X meaning: MEANING_CONSTANT fixed: "ST01"}];
  string filler = 4 [(layout) = {width: 1 kind: KIND_X meaning: MEANING_FILLER}];
}

message Answer {
  option (telegram) = {mti: "0110" length: 20};
  string mti = 1 [(layout) = {width: 4 kind: KIND_X meaning: MEANING_MTI}];
  string tran_id = 2 [(layout) = {width: 5 kind: KIND_X meaning: MEANING_TRANSACTION_ID}];
  string response_code = 3 [(layout) = {width: 4 kind: KIND_X meaning: MEANING_RESPONSE_CODE}];
  string message = 4 [(layout) = {width: 4 kind: KIND_K meaning: MEANING_VALUE}];
  int64 number = 5 [(layout) = {width: 3 kind: KIND_N meaning: MEANING_VALUE when_done: true}];
}
`

// otherLength is valid alone, and not beside validLayout.
const otherLength = `
message Account {
  option (telegram) = {mti: "0200" length: 23};
  string mti = 1 [(layout) = {width: 4 kind: KIND_X meaning: MEANING_MTI}];
  string tran_id = 2 [(layout) = {width: 5 kind: KIND_X meaning: MEANING_TRANSACTION_ID}];
  string account = 3 [(layout) = {width: 14 kind: KIND_N meaning: MEANING_ACCOUNT}];
}
`

// refusals has what to replace in validLayout by what, and what is said then.
var refusals = map[string]struct{ old, new, want string }{
	"widths short of the length":   {"length: 14", "length: 15", "Ask: widths add up to 14, length is 15"},
	"widths beyond the length":     {"width: 1 ", "width: 2 ", "Ask: widths add up to 15, length is 14"},
	"no length":                    {"length: 14", "", "widths add up to 14, length is 0"},
	"an MTI twice":                 {`"0110"`, `"0100"`, "Answer: mti 0100 is that of Ask"},
	"no MTI":                       {`mti: "0100" `, "", "mti must be four digits"},
	"an MTI of three digits":       {`"0100"`, `"010"`, "mti must be four digits"},
	"an MTI of letters":            {`"0100"`, `"01OO"`, "mti must be four digits"},
	"an mti field that is a value": {"MEANING_MTI", "MEANING_VALUE", "MEANING_MTI, the first"},
	"an mti field that is not first": {
		"{width: 4 kind: KIND_X meaning: MEANING_MTI}];\n  string tran_id = 2 [(layout) = {width: 5 kind: KIND_X meaning: MEANING_TRANSACTION_ID}]",
		"{width: 5 kind: KIND_X meaning: MEANING_TRANSACTION_ID}];\n  string tran_id = 2 [(layout) = {width: 4 kind: KIND_X meaning: MEANING_MTI}]",
		"MEANING_MTI, the first",
	},
	"no tran_id field":             {"MEANING_TRANSACTION_ID", "MEANING_VALUE", "must have one field of MEANING_TRANSACTION_ID, has 0"},
	"two tran_id fields":           {`MEANING_CONSTANT fixed: "ST01"`, "MEANING_TRANSACTION_ID", "must have one field of MEANING_TRANSACTION_ID, has 2"},
	"an mti field too many":        {`MEANING_CONSTANT fixed: "ST01"`, "MEANING_MTI", "MEANING_MTI, the first"},
	"two response codes":           {"KIND_K meaning: MEANING_VALUE", "KIND_X meaning: MEANING_RESPONSE_CODE", "at most one field of MEANING_RESPONSE_CODE, has 2"},
	"a constant without text":      {` fixed: "ST01"`, "", "tx_code: fixed must be 1 to 4"},
	"a constant too long":          {`"ST01"`, `"ST001"`, "tx_code: fixed must be 1 to 4"},
	"a constant with a space":      {`"ST01"`, `"ST 1"`, "tx_code: fixed must be printable"},
	"a constant in Korean":         {`"ST01"`, `"가"`, "tx_code: fixed must be printable"},
	"a constant with NUL":          {`"ST01"`, `"ST\0001"`, "tx_code: fixed must be printable"},
	"fixed text for a filler":      {"MEANING_FILLER", `MEANING_FILLER fixed: "x"`, "filler: fixed is not for MEANING_FILLER"},
	"no width":                     {"width: 1 ", "", "filler: width must be"},
	"a width that overflows":       {"width: 1 ", "width: 4294967295 ", "filler: width must be"},
	"no kind":                      {"width: 1 kind: KIND_X ", "width: 1 ", "filler: MEANING_FILLER cannot be KIND_UNSPECIFIED"},
	"no meaning":                   {" meaning: MEANING_FILLER", "", "filler: MEANING_UNSPECIFIED cannot be"},
	"a kind that is not the mti's": {"KIND_X meaning: MEANING_MTI", "KIND_N meaning: MEANING_MTI", "mti: MEANING_MTI cannot be KIND_N"},
	"a response code of 3":         {"width: 4 kind: KIND_X meaning: MEANING_RESPONSE_CODE", "width: 3 kind: KIND_X meaning: MEANING_RESPONSE_CODE", "response_code: MEANING_RESPONSE_CODE cannot be KIND_X with width 3"},
	"digits in a string":           {"int64 number", "string number", "number: MEANING_VALUE cannot be KIND_N with width 3 and type string"},
	"a repeated field":             {"int64 number", "repeated int64 number", "type repeated int64"},
	"an optional field":            {"int64 number", "optional int64 number", "type optional int64"},
	"19 digits":                    {"width: 3 kind: KIND_N", "width: 19 kind: KIND_N", "number: KIND_N is at most 18 wide, is 19"},
	"text wider than its buffer":   {"width: 4 kind: KIND_K", "width: 129 kind: KIND_K", "message: KIND_K is at most 128 wide, is 129"},
	"when_done in a request":       {"meaning: MEANING_FILLER", "meaning: MEANING_VALUE when_done: true", "filler: when_done needs a response code"},
	"when_done of the code itself": {"MEANING_RESPONSE_CODE}", "MEANING_RESPONSE_CODE when_done: true}", "response_code: when_done is not for MEANING_RESPONSE_CODE"},
	"a field without layout":       {"string filler = 4 [(layout) = {width: 1 kind: KIND_X meaning: MEANING_FILLER}]", "string filler = 4", "Ask: filler: has no layout"},
	"no telegram option":           {`option (telegram) = {mti: "0100" length: 14};`, "", "Ask: mti has a layout, but the message has no telegram option"},
}

func TestGenerate_RefusesALayoutThatDoesNotAddUp(t *testing.T) {
	if _, err := run(t, validLayout, "go"); err != nil {
		t.Fatalf("the valid layout is refused: %v", err)
	}
	for name, tt := range refusals {
		t.Run(name, func(t *testing.T) { checkRefusal(t, validLayout, tt.old, tt.new, tt.want) })
	}
}

// validListing is what the refused layouts with records differ from in one
// place.
const validListing = `syntax = "proto3";
package gwanmun.telegram.v1;
import "gwanmun/telegram/v1/layout.proto";

message List {
  option (telegram) = {mti: "0300" length: 12 prefix: 2};
  string mti = 1 [(layout) = {width: 4 kind: KIND_X meaning: MEANING_MTI}];
  string day = 2 [(layout) = {width: 8 kind: KIND_X meaning: MEANING_DATE}];
}

message Listed {
  option (telegram) = {mti: "0310" length: 11 prefix: 2};
  string mti = 1 [(layout) = {width: 4 kind: KIND_X meaning: MEANING_MTI}];
  int64 record_count = 2 [(layout) = {width: 1 kind: KIND_N meaning: MEANING_RECORD_COUNT}];
  int64 total_length = 3 [(layout) = {width: 2 kind: KIND_N meaning: MEANING_TOTAL_LENGTH}];
  string response_code = 4 [(layout) = {width: 4 kind: KIND_X meaning: MEANING_RESPONSE_CODE}];
  repeated Line lines = 5 [(layout) = {width: 22 meaning: MEANING_RECORDS max_count: 4}];
}

message Line {
  option (record) = {length: 22};
  string day = 1 [(layout) = {width: 8 kind: KIND_X meaning: MEANING_DATE}];
  string account = 2 [(layout) = {width: 14 kind: KIND_N meaning: MEANING_ACCOUNT}];
}
`

var listingRefusals = map[string]struct{ old, new, want string }{
	"a header that does not add up":     {"length: 11", "length: 33", "Listed: widths add up to 11, length is 33"},
	"a record that does not add up":     {"{length: 22}", "{length: 21}", "Line: widths add up to 22, length is 21"},
	"records of another width":          {"width: 22 meaning", "width: 21 meaning", "lines: width is 21, a Line has 22"},
	"no prefix":                         {"length: 11 prefix: 2", "length: 11", "must have one field of MEANING_TRANSACTION_ID, has 0"},
	"two prefixes":                      {"length: 12 prefix: 2", "length: 12 prefix: 3", "Listed: prefix is 2, that of another telegram is 3"},
	"a prefix of 5":                     {"length: 12 prefix: 2", "length: 12 prefix: 5", "List: prefix must be at most 4, is 5"},
	"a prefix too short for a full one": {"max_count: 4", "max_count: 5", "2 digits cannot tell a length of 121"},
	"a prefix too short for a request":  {"length: 12 prefix: 2", "length: 12 prefix: 1", "List: 1 digits cannot tell a length of 12"},
	"a total length too short":          {"width: 2 kind: KIND_N meaning: MEANING_TOTAL_LENGTH", "width: 1 kind: KIND_N meaning: MEANING_TOTAL_LENGTH", "widths add up to 10"},
	"no count of records":               {"MEANING_RECORD_COUNT", "MEANING_VALUE", "must have 1 field of MEANING_RECORD_COUNT, has 0"},
	"no total length":                   {"MEANING_TOTAL_LENGTH", "MEANING_VALUE", "must have 1 field of MEANING_TOTAL_LENGTH, has 0"},
	"no max_count":                      {" max_count: 4", "", "lines: max_count must be 1 to 9999, is 0"},
	"max_count of another field":        {"meaning: MEANING_TOTAL_LENGTH", "meaning: MEANING_TOTAL_LENGTH max_count: 1", "total_length: max_count is not for MEANING_TOTAL_LENGTH"},
	"one record alone":                  {"repeated Line lines", "Line lines", "lines: MEANING_RECORDS cannot be KIND_UNSPECIFIED with width 22 and type message"},
	"records with a kind":               {"width: 22 meaning", "width: 22 kind: KIND_X meaning", "lines: MEANING_RECORDS cannot be KIND_X"},
	"records of no record":              {"repeated Line lines", "repeated List lines", "Listed: lines: its message has no record option"},
	"records in a request":              {"width: 4 kind: KIND_X meaning: MEANING_RESPONSE_CODE", "width: 4 kind: KIND_X meaning: MEANING_VALUE", "records need a prefix and a response code"},
	"a day of six bytes":                {"width: 8 kind: KIND_X meaning: MEANING_DATE}];\n}", "width: 6 kind: KIND_X meaning: MEANING_DATE}];\n}", "List: day: MEANING_DATE cannot be KIND_X with width 6"},
	"an MTI in a record":                {"string day = 1 [(layout) = {width: 8 kind: KIND_X meaning: MEANING_DATE}", "string day = 1 [(layout) = {width: 4 kind: KIND_X meaning: MEANING_MTI}", "Line: day: MEANING_MTI is not for a record"},
	"a telegram that is a record":       {"message Line {", `message Line { option (telegram) = {mti: "0311" length: 22};`, "Line: cannot be a telegram and a record"},
	"a record without option":           {"option (record) = {length: 22};", "", "Listed: lines: its message has no record option"},
	"a record of no telegram": {
		"message Line {", "message Stray { option (record) = {length: 1};\n string a = 1 [(layout) = {width: 1 kind: KIND_X meaning: MEANING_VALUE}];\n}\nmessage Line {",
		"Stray: no telegram has such records",
	},
	"a count too narrow for the most": {"width: 22 meaning: MEANING_RECORDS max_count: 4", "width: 22 meaning: MEANING_RECORDS max_count: 10", "cannot tell"},
}

func TestGenerate_RefusesRecordsThatDoNotAddUp(t *testing.T) {
	if _, err := run(t, validListing, "go"); err != nil {
		t.Fatalf("the valid layout is refused: %v", err)
	}
	for name, tt := range listingRefusals {
		t.Run(name, func(t *testing.T) { checkRefusal(t, validListing, tt.old, tt.new, tt.want) })
	}
}

func TestGenerate_RefusesACountThatItsFieldCannotTell(t *testing.T) {
	wide := strings.ReplaceAll(validListing, "prefix: 2", "prefix: 4")
	checkRefusal(t, wide, "max_count: 4", "max_count: 10", "record_count: 1 digits cannot tell 10")
	checkRefusal(t, wide, "max_count: 4", "max_count: 9", "total_length: 2 digits cannot tell 209")
}

func TestGenerate_RefusesRecordsThatAreNotLast(t *testing.T) {
	checkRefusal(t, validListing, "max_count: 4}];",
		"max_count: 4}];\n  string constant = 6 [(layout) = {width: 1 kind: KIND_X meaning: MEANING_FILLER}];",
		"Listed: widths add up to 12, length is 11")
	last := strings.Replace(validListing, "length: 11", "length: 12", 1)
	checkRefusal(t, last, "max_count: 4}];",
		"max_count: 3}];\n  string constant = 6 [(layout) = {width: 1 kind: KIND_X meaning: MEANING_FILLER}];",
		"Listed: lines must be the last field")
}

func TestGenerate_RefusesATypeThatLooksLikeAPrefix(t *testing.T) {
	checkRefusal(t, validLayout+strings.ReplaceAll(validListing[strings.Index(validListing, "message List {"):], "prefix: 2", "prefix: 4"),
		`"0100"`, `"0010"`, "Ask: mti 0010 is also the prefix of a frame of its length")
}

func TestGenerate_RefusesRequestsOfTwoLengths(t *testing.T) {
	checkRefusal(t, validLayout+otherLength, "", "", "Account: length is 23, that of Ask is 14")
}

func TestGenerate_RefusesAnAccountOfAnotherWidth(t *testing.T) {
	checkRefusal(t, validLayout+otherLength, "width: 14", "width: 13", "account: MEANING_ACCOUNT cannot be KIND_N with width 13")
}

// checkRefusal checks that the plugin refuses the text, once changed, and says
// in which file.
func checkRefusal(t *testing.T, text, before, after, want string) {
	t.Helper()
	if !strings.Contains(text, before) {
		t.Fatalf("nothing to replace: %q", before)
	}
	for _, out := range []string{"go", "page"} {
		_, err := run(t, strings.Replace(text, before, after, 1), out)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), telegramPath) {
			t.Errorf("%s: refusal is %v, want %q", out, err, want)
		}
	}
}

func TestGenerate_RefusesAnUnknownOutput(t *testing.T) {
	if _, err := run(t, source(t, telegramPath), "java"); err == nil {
		t.Error("nothing was refused")
	}
}

func TestGenerate_WritesNothingForAFileWithoutTelegrams(t *testing.T) {
	r := request(t, source(t, telegramPath))
	r.FileToGenerate = []string{layoutPath}
	p, err := protogen.Options{}.New(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := generate(p, "go"); err != nil || len(p.Response().GetFile()) != 0 {
		t.Errorf("wrote %d files, %v", len(p.Response().GetFile()), err)
	}
}

func TestGoName_FollowsGo(t *testing.T) {
	for in, want := range map[string]string{"tran_id": "TranID", "approval_no": "ApprovalNo", "id": "ID", "a__b": "AB"} {
		if got := (field{name: in}).goName(); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}
