package simulator

import (
	"errors"
	"fmt"

	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// errNotFrame says that bytes are none of the four requests.
var errNotFrame = errors.New("not a request of the link port")

// parseRequest reads a frame. Its error wraps errNotFrame and holds nothing of
// the bytes.
func parseRequest(b []byte) (request, error) {
	switch mti := telegram.MTI(b); mti {
	case telegram.PaymentRequestMTI:
		m, err := telegram.ParsePaymentRequest(b)
		return request{mti: mti, tranID: m.TranID, account: m.Account, amount: m.Amount}, notFrame(err)
	case telegram.BalanceRequestMTI:
		m, err := telegram.ParseBalanceRequest(b)
		return request{mti: mti, tranID: m.TranID, account: m.Account}, notFrame(err)
	case telegram.StatusRequestMTI:
		m, err := telegram.ParseStatusRequest(b)
		return request{mti: mti, tranID: m.TranID}, notFrame(err)
	case telegram.CancelRequestMTI:
		m, err := telegram.ParseCancelRequest(b)
		return request{mti: mti, tranID: m.TranID}, notFrame(err)
	default:
		return request{}, fmt.Errorf("%w: unknown message type", errNotFrame)
	}
}

func notFrame(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", errNotFrame, err)
}
