// protoc-gen-telegram turns telegram.proto into Go (out=go: a struct for each
// telegram, which appends to and parses from bytes without reflection) or into
// the reference page (out=page).
//
// It refuses a layout that does not add up, so that what it wrote always stands
// for frames of the declared length. It reads the options of layout.proto from
// the descriptors it is given and needs no generated Go for them.
package main

import (
	"errors"
	"flag"
	"fmt"

	"google.golang.org/protobuf/compiler/protogen"
	"google.golang.org/protobuf/types/pluginpb"
)

func main() {
	var flags flag.FlagSet
	out := flags.String("out", "", "what to write: go or page")
	protogen.Options{ParamFunc: flags.Set}.Run(func(p *protogen.Plugin) error {
		p.SupportedFeatures = uint64(pluginpb.CodeGeneratorResponse_FEATURE_PROTO3_OPTIONAL)
		return generate(p, *out)
	})
}

// generate writes one file for each input file that declares telegrams.
func generate(p *protogen.Plugin, out string) error {
	write := map[string]func(*protogen.Plugin, *protogen.File, layouts){"go": writeGo, "page": writePage}[out]
	if write == nil {
		return errors.New("option out must be go or page")
	}
	options, err := newOptionReader(p.Request.GetProtoFile())
	if err != nil {
		return fmt.Errorf("read layout.proto: %w", err)
	}
	for _, file := range p.Files {
		if !file.Generate || len(file.Messages) == 0 {
			continue
		}
		all, err := readLayouts(options, file)
		if err != nil {
			return fmt.Errorf("%s: %w", file.Desc.Path(), err)
		}
		if len(all.telegrams) > 0 {
			write(p, file, all)
		}
	}
	return nil
}
