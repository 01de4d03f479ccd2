package hardening

import (
	"context"
	"fmt"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"

	_ "github.com/gwanmun/gwanmun/proto/gen/gwanmun/circuit/v1"        // its methods
	_ "github.com/gwanmun/gwanmun/proto/gen/gwanmun/ledger/v1"         // its methods
	_ "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"        // its methods
	_ "github.com/gwanmun/gwanmun/proto/gen/gwanmun/reconciliation/v1" // its methods
	_ "github.com/gwanmun/gwanmun/proto/gen/gwanmun/simulator/v1"      // its methods
)

// servedBy are the services of each binary.
var servedBy = map[string][]protoreflect.FullName{
	"payment": {
		"gwanmun.payment.v1.PaymentService", "gwanmun.payment.v1.AccountService",
		"gwanmun.ledger.v1.LedgerService", "gwanmun.circuit.v1.CircuitService",
	},
	"reconciler": {
		"gwanmun.reconciliation.v1.ReconciliationService", "gwanmun.reconciliation.v1.CallbackService",
		"gwanmun.ledger.v1.LedgerService", "gwanmun.circuit.v1.CircuitService",
	},
	"corebank": {"gwanmun.simulator.v1.SimulatorService"},
}

// method is one rpc of a binary.
type method struct {
	path  string
	input protoreflect.MessageDescriptor
	desc  *grpc.StreamDesc
}

// methods are all rpcs of ours that the process serves.
func (p *process) methods(t testing.TB) []method {
	t.Helper()
	var found []method
	for _, name := range servedBy[p.name] {
		d, err := protoregistry.GlobalFiles.FindDescriptorByName(name)
		if err != nil {
			t.Fatalf("find %s: %v", name, err)
		}
		list := d.(protoreflect.ServiceDescriptor).Methods()
		for i := range list.Len() {
			m := list.Get(i)
			found = append(found, method{
				path:  fmt.Sprintf("/%s/%s", name, m.Name()),
				input: m.Input(),
				desc:  &grpc.StreamDesc{ServerStreams: m.IsStreamingServer(), ClientStreams: m.IsStreamingClient()},
			})
		}
	}
	return found
}

// bytesCodec sends bytes as they are, and drops what is answered.
type bytesCodec struct{}

// Name is that of the codec that servers expect.
func (bytesCodec) Name() string { return "proto" }

// Marshal takes bytes.
func (bytesCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}

// Unmarshal drops an answer.
func (bytesCodec) Unmarshal(mem.BufferSlice, any) error { return nil }

// call sends bytes to a method, waits for its end, and returns how that was.
func (m method) call(ctx context.Context, conn *grpc.ClientConn, request []byte) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	stream, err := conn.NewStream(ctx, m.desc, m.path, grpc.ForceCodecV2(bytesCodec{}))
	if err != nil {
		return err
	}
	_ = stream.SendMsg(request) // RecvMsg says why it failed
	_ = stream.CloseSend()
	for range 4 { // a stream of answers is not read to its end
		if err = stream.RecvMsg(nil); err != nil || !m.desc.ServerStreams {
			return err
		}
	}
	return nil
}

// sane reports whether an answer is one that a caller's own fault may get. INTERNAL
// and UNKNOWN would blame us; UNAVAILABLE without a reason is a cut connection.
func sane(err error) bool {
	switch status.Code(err) {
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return false
	case codes.Unavailable:
		return len(status.Convert(err).Details()) > 0
	default:
		return true
	}
}

// textFields calls f with a message in which one text is the given one, once for
// each text field of the type, at every depth.
func textFields(d protoreflect.MessageDescriptor, text string, f func(field string, m proto.Message)) {
	root := dynamicpb.NewMessage(d)
	eachText(d, text, 0, "", func(name string, build func(protoreflect.Message)) {
		proto.Reset(root)
		build(root)
		f(name, root)
	})
}

// maxDepth is how deep messages of messages are looked into.
const maxDepth = 4

func eachText(d protoreflect.MessageDescriptor, text string, depth int, prefix string, f func(string, func(protoreflect.Message))) {
	if depth == maxDepth {
		return
	}
	for i := range d.Fields().Len() {
		fd := d.Fields().Get(i)
		name := prefix + string(fd.Name())
		switch {
		case fd.IsMap():
		case fd.Kind() == protoreflect.StringKind && fd.IsList():
			f(name, func(m protoreflect.Message) { m.Mutable(fd).List().Append(protoreflect.ValueOfString(text)) })
		case fd.Kind() == protoreflect.StringKind:
			f(name, func(m protoreflect.Message) { m.Set(fd, protoreflect.ValueOfString(text)) })
		case fd.Kind() == protoreflect.MessageKind && fd.IsList():
			eachText(fd.Message(), text, depth+1, name+".", func(inner string, build func(protoreflect.Message)) {
				f(inner, func(m protoreflect.Message) { build(m.Mutable(fd).List().AppendMutable().Message()) })
			})
		case fd.Kind() == protoreflect.MessageKind:
			eachText(fd.Message(), text, depth+1, name+".", func(inner string, build func(protoreflect.Message)) {
				f(inner, func(m protoreflect.Message) { build(m.Mutable(fd).Message()) })
			})
		}
	}
}

// replaced is the message with one text in place of another, wherever it is.
func replaced(m proto.Message, from, to string) proto.Message {
	r := proto.Clone(m).ProtoReflect()
	replaceIn(r, from, to)
	return r.Interface()
}

func replaceIn(m protoreflect.Message, from, to string) {
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.IsMap():
		case fd.IsList():
			for i := range v.List().Len() {
				if fd.Kind() == protoreflect.StringKind && v.List().Get(i).String() == from {
					v.List().Set(i, protoreflect.ValueOfString(to))
				}
				if fd.Kind() == protoreflect.MessageKind {
					replaceIn(v.List().Get(i).Message(), from, to)
				}
			}
		case fd.Kind() == protoreflect.StringKind && v.String() == from:
			m.Set(fd, protoreflect.ValueOfString(to))
		case fd.Kind() == protoreflect.MessageKind:
			replaceIn(v.Message(), from, to)
		}
		return true
	})
}
