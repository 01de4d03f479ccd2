package resilience

import (
	"context"
	"testing"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/failsafegrpc"
	"google.golang.org/grpc"        //nolint:depguard // shows why failsafegrpc stands in front of nothing here
	"google.golang.org/grpc/codes"  //nolint:depguard // as above
	"google.golang.org/grpc/status" //nolint:depguard // as above
)

// Its retry sends again what may have been done: a payment that ended in
// DEADLINE_EXCEEDED is a payment whose outcome is unknown.
func TestPlain_FailsafegrpcSendsAgainWhatMayHaveBeenDone(t *testing.T) {
	for _, code := range []codes.Code{codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted} {
		sent := 0
		retry := failsafegrpc.NewRetryPolicyBuilder[any]().Build()
		_ = failsafe.With[any](retry).Run(func() error { sent++; return status.Error(code, "") })
		if sent != 3 {
			t.Errorf("%s is sent %d times", code, sent)
		}
	}
	// Ours: it is imported by no binary; retries stand behind the rpc edge, for
	// inquiries alone.
}

// A refusal by its server side has no status of its own.
func TestPlain_FailsafegrpcRefusalIsUnknownToTheClient(t *testing.T) {
	serve := failsafegrpc.NewUnaryServerInterceptor[any](trip(plainly()))
	_, err := serve(context.Background(), nil, &grpc.UnaryServerInfo{}, func(context.Context, any) (any, error) { return nil, nil })
	if err == nil || status.Code(err) != codes.Unknown {
		t.Errorf("%v is %s", err, status.Code(err))
	}
	// Ours: an OpenError, from which the edge makes CIRCUIT_OPEN with RetryInfo.
}
