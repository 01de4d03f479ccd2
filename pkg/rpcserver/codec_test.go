package rpcserver

import (
	"testing"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	paymentv1 "github.com/gwanmun/gwanmun/proto/gen/gwanmun/payment/v1"
)

// What was decoded before the fault must not look like a request.
func TestRequestCodec_LeavesNothingOfWhatItCannotDecode(t *testing.T) {
	whole, err := proto.Marshal(&paymentv1.CreatePaymentRequest{IdempotencyKey: "key-1", Amount: 1})
	if err != nil {
		t.Fatal(err)
	}
	var got paymentv1.CreatePaymentRequest
	if err := newRequestCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(append(whole, 0xff))}, &got); err != nil {
		t.Fatal(err)
	}
	if got.GetIdempotencyKey() != "" || got.GetAmount() != 0 || checkDecoded(&got) == nil {
		t.Errorf("left is %v", &got)
	}
}

func TestRequestCodec_AValueThatIsNoMessageIsAnError(t *testing.T) {
	var text string
	if err := newRequestCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer("x")}, &text); err == nil {
		t.Error("text was decoded")
	}
}
