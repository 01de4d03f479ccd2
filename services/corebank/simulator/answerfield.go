package simulator

import (
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// answerTypes are the types of the answers, by that of the request.
var answerTypes = map[string]string{
	telegram.BalanceRequestMTI: telegram.BalanceAnswerMTI,
	telegram.PaymentRequestMTI: telegram.PaymentAnswerMTI,
	telegram.StatusRequestMTI:  telegram.StatusAnswerMTI,
	telegram.CancelRequestMTI:  telegram.CancelAnswerMTI,
}

// otherAnswers are the types that FaultWrongMTI gives.
var otherAnswers = map[string]string{
	telegram.BalanceAnswerMTI: telegram.PaymentAnswerMTI,
	telegram.PaymentAnswerMTI: telegram.BalanceAnswerMTI,
	telegram.StatusAnswerMTI:  telegram.CancelAnswerMTI,
	telegram.CancelAnswerMTI:  telegram.StatusAnswerMTI,
}

// span is where a field stands in a frame.
type span struct{ at, width int }

func (s span) of(frame []byte) []byte { return frame[s.at : s.at+s.width] }

// The fields that every answer has in one place.
var (
	mtiSpan    = span{0, 4}
	tranIDSpan = span{4, 22}
)

// answerFields are the fields of each answer, named and placed as telegram.proto
// has them: the tests hold the two together.
var answerFields = map[string]map[string]span{
	telegram.BalanceAnswerMTI: {
		"mti": mtiSpan, "tran_id": tranIDSpan, "balance": {26, 15}, "response_code": {41, 4}, "message": {45, 16},
	},
	telegram.PaymentAnswerMTI: {
		"mti": mtiSpan, "tran_id": tranIDSpan, "response_code": {26, 4}, "message": {30, 20}, "approval_no": {50, 11},
	},
	telegram.StatusAnswerMTI: {
		"mti": mtiSpan, "tran_id": tranIDSpan, "tx_code": {26, 4}, "processed": {30, 2},
		"response_code": {32, 4}, "message": {36, 20}, "filler": {56, 5},
	},
	telegram.CancelAnswerMTI: {
		"mti": mtiSpan, "tran_id": tranIDSpan, "tx_code": {26, 4}, "cancel_result": {30, 2},
		"response_code": {32, 4}, "message": {36, 20}, "filler": {56, 5},
	},
}

// answerField is where a field stands in the answer to a request of a type.
func answerField(mti, field string) (span, bool) {
	place, has := answerFields[answerTypes[mti]][field]
	return place, has
}

// isAnswerField reports whether answers to this type of request, or to any if
// it is empty, have the field.
func isAnswerField(mti, field string) bool {
	for request := range answerTypes {
		if _, has := answerField(request, field); has && (mti == "" || mti == request) {
			return true
		}
	}
	return false
}
