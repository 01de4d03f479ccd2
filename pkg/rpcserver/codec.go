package rpcserver

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	protobuf "google.golang.org/protobuf/proto"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

// gRPC answers a request that it cannot decode with INTERNAL, and before any
// interceptor runs: no reason, no correlation ID, no log line, and the blame on
// us. This codec hands such a request on as an empty message that bears a mark,
// and validation refuses what bears it. The mark is an unknown field, so that
// it lives and dies with the message; a caller who sends it himself is refused,
// which harms nobody.
type requestCodec struct {
	encoding.CodecV2
}

func newRequestCodec() requestCodec {
	return requestCodec{CodecV2: encoding.GetCodecV2(proto.Name)}
}

// undecodable is the mark: the highest field number there is.
var undecodable = string(protowire.AppendString(
	protowire.AppendTag(nil, protowire.MaxValidNumber, protowire.BytesType), "gwanmun: undecodable"))

// Unmarshal decodes a request, or marks it.
func (c requestCodec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	message, ok := v.(protobuf.Message)
	if !ok {
		return err // gRPC words it
	}
	protobuf.Reset(message) // nothing of what was decoded so far may be used
	message.ProtoReflect().SetUnknown([]byte(undecodable))
	return nil
}

// checkDecoded refuses a message that bears the mark.
func checkDecoded(message protobuf.Message) error {
	if string(message.ProtoReflect().GetUnknown()) != undecodable {
		return nil
	}
	return &ledger.Refusal{
		Reason: ledger.ReasonInvalidRequest,
		Fields: []ledger.FieldViolation{{
			Description: "the request must be a protobuf message of its type, with all text in UTF-8",
		}},
	}
}
