package main

import (
	"fmt"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

const (
	telegramOption protoreflect.FullName = "gwanmun.telegram.v1.telegram"
	recordOption   protoreflect.FullName = "gwanmun.telegram.v1.record"
	layoutOption   protoreflect.FullName = "gwanmun.telegram.v1.layout"
)

// optionReader reads our options, which reach a plugin as bytes it does not
// know, by the descriptors that came with them.
type optionReader struct{ types *dynamicpb.Types }

func newOptionReader(files []*descriptorpb.FileDescriptorProto) (optionReader, error) {
	registry, err := protodesc.NewFiles(&descriptorpb.FileDescriptorSet{File: files})
	if err != nil {
		return optionReader{}, err
	}
	r := optionReader{types: dynamicpb.NewTypes(registry)}
	for _, name := range []protoreflect.FullName{telegramOption, recordOption, layoutOption} {
		if _, err := r.types.FindExtensionByName(name); err != nil {
			return optionReader{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	return r, nil
}

// option is the value of one of our options.
type option struct{ message protoreflect.Message }

// read finds an option by name, if it is set, among the options of a message or
// a field. It unmarshals them once more, into empty, now knowing ours.
func (r optionReader) read(options, empty proto.Message, name protoreflect.FullName) (option, bool, error) {
	raw, err := proto.Marshal(options)
	if err != nil {
		return option{}, false, err
	}
	if err := (proto.UnmarshalOptions{Resolver: r.types}).Unmarshal(raw, empty); err != nil {
		return option{}, false, err
	}
	var found option
	// Not proto.GetExtension: it wants the descriptor that is linked in here to
	// be the one that the request brought.
	empty.ProtoReflect().Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		if field.FullName() == name {
			found.message = value.Message()
		}
		return true
	})
	return found, found.message != nil, nil
}

func (o option) field(name protoreflect.Name) (protoreflect.FieldDescriptor, protoreflect.Value) {
	field := o.message.Descriptor().Fields().ByName(name)
	return field, o.message.Get(field)
}

func (o option) text(name protoreflect.Name) string {
	_, value := o.field(name)
	return value.String()
}

func (o option) number(name protoreflect.Name) int {
	_, value := o.field(name)
	return int(value.Uint())
}

func (o option) flag(name protoreflect.Name) bool {
	_, value := o.field(name)
	return value.Bool()
}

// enum is the name of an enum's value, such as KIND_X.
func (o option) enum(name protoreflect.Name) string {
	field, value := o.field(name)
	known := field.Enum().Values().ByNumber(value.Enum())
	if known == nil {
		return ""
	}
	return string(known.Name())
}
