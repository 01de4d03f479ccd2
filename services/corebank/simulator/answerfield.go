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
	telegram.HistoryRequestMTI: telegram.HistoryAnswerMTI,
	telegram.BookRequestMTI:    telegram.BookAnswerMTI,
}

// isListing reports whether a type of request is one of the listing port.
func isListing(mti string) bool {
	return mti == telegram.HistoryRequestMTI || mti == telegram.BookRequestMTI
}

// otherAnswers are the types that FaultWrongMTI gives.
var otherAnswers = map[string]string{
	telegram.BalanceAnswerMTI: telegram.PaymentAnswerMTI,
	telegram.PaymentAnswerMTI: telegram.BalanceAnswerMTI,
	telegram.StatusAnswerMTI:  telegram.CancelAnswerMTI,
	telegram.CancelAnswerMTI:  telegram.StatusAnswerMTI,
	telegram.HistoryAnswerMTI: telegram.BookAnswerMTI,
	telegram.BookAnswerMTI:    telegram.HistoryAnswerMTI,
}

// span is where a field stands in a frame.
type span struct{ at, width int }

func (s span) of(frame []byte) []byte { return frame[s.at : s.at+s.width] }

// The fields that every answer of the link port has in one place.
var (
	mtiSpan    = span{0, 4}
	tranIDSpan = span{4, 22}
)

// answerFields are the fields of each answer, named and placed as telegram.proto
// has them: the tests hold the two together. Those of a listing are its prefix
// and its header, with which every answer to it begins.
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
	telegram.HistoryAnswerMTI: {
		"prefix": {0, 4}, "mti": {4, 4}, "account": {8, 14}, "record_count": {22, 3}, "total_length": {25, 5},
		"response_code": {30, 4},
	},
	telegram.BookAnswerMTI: {
		"prefix": {0, 4}, "mti": {4, 4}, "settle_date": {8, 8}, "page": {16, 8}, "record_count": {24, 3},
		"total_length": {27, 5}, "response_code": {32, 4},
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
