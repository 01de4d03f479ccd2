package rpcserver

import (
	"errors"
	"fmt"

	"buf.build/go/protovalidate"
	"google.golang.org/grpc"
	protobuf "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// manyFaults is the size in bytes up to which all that is wrong with a request
// is looked for. Of a larger one, made of thousands of wrong items perhaps, the
// first fault is enough.
const manyFaults = 4 << 10

// validator holds requests against the rules of the contract. It may be used
// once compile has returned.
type validator struct {
	rules protovalidate.Validator
}

// compile compiles the rules of all requests of the services, so that a rule
// that does not compile stops the start and not a payment.
func (v *validator) compile(services map[string]grpc.ServiceInfo) error {
	var inputs []protoreflect.MessageDescriptor
	for name := range services {
		found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
		if err != nil {
			return fmt.Errorf("find service %s: %w", name, err)
		}
		service, ok := found.(protoreflect.ServiceDescriptor)
		if !ok {
			return fmt.Errorf("%s is not a service", name)
		}
		for i := range service.Methods().Len() {
			inputs = append(inputs, service.Methods().Get(i).Input())
		}
	}
	rules, err := protovalidate.New(protovalidate.WithMessageDescriptors(inputs...))
	if err != nil {
		return fmt.Errorf("compile the rules of requests: %w", err)
	}
	v.rules = rules
	return nil
}

// check returns a *ledger.Refusal that names the fields that are wrong. What
// they hold is not repeated.
func (v *validator) check(request any) error {
	message, ok := request.(protobuf.Message)
	if !ok {
		return fmt.Errorf("validate a request of type %T: not a message", request)
	}
	if err := checkDecoded(message); err != nil {
		return err
	}
	err := v.rules.Validate(message, protovalidate.WithFailFast())
	if err == nil { // before faults is there: errors.As would have it allocated for every call
		return nil
	}
	if protobuf.Size(message) <= manyFaults {
		err = v.rules.Validate(message)
	}
	var faults *protovalidate.ValidationError
	switch {
	case errors.As(err, &faults):
		return &ledger.Refusal{Reason: ledger.ReasonInvalidRequest, Fields: violations(faults)}
	default:
		return fmt.Errorf("validate %s: %w", message.ProtoReflect().Descriptor().FullName(), err)
	}
}

func violations(faults *protovalidate.ValidationError) []ledger.FieldViolation {
	fields := make([]ledger.FieldViolation, 0, len(faults.Violations))
	for _, fault := range faults.Violations {
		description := fault.Proto.GetMessage()
		if description == "" {
			description = "must satisfy the rule " + fault.Proto.GetRuleId()
		}
		fields = append(fields, ledger.FieldViolation{
			Field:       protovalidate.FieldPathString(fault.Proto.GetField()),
			Description: description,
		})
	}
	return fields
}

func (v *validator) stream(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return next(srv, &validatedStream{ServerStream: stream, validator: v})
}

// validatedStream checks each message as it arrives.
type validatedStream struct {
	grpc.ServerStream

	validator *validator
}

// RecvMsg receives and checks one message.
func (s *validatedStream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil {
		return err // gRPC's own, io.EOF among them
	}
	return s.validator.check(m)
}
