package simulator

import (
	"fmt"

	"github.com/gwanmun/gwanmun/pkg/frame"
	telegram "github.com/gwanmun/gwanmun/pkg/telegram/gen"
)

// The bank's words, by response code. Strict EUC-KR, at most 16 bytes: they fit
// the message of every answer.
var wordsByCode = map[string]string{
	codeDone:      "정상처리",
	codeNoAccount: "계좌없음",
	codeAmount:    "금액오류",
	codeFunds:     "잔액부족",
	codeUsed:      "거래번호중복",
	codeFenced:    "취소된거래",
	codeUnable:    "처리불가",
}

// The bank's words for a status inquiry and a net cancel that it judged.
var (
	wordsByProcessed = map[string]string{
		processedStands: "처리된거래", processedNot: "미처리", processedCanceled: "취소된거래",
	}
	wordsByCancel = map[string]string{
		cancelDone: "취소완료", cancelNone: "원거래없음",
	}
)

// otherWords go with a code that the bank was told to give.
const otherWords = "거절"

func words(code string, judged map[string]string, flag string) frame.Text {
	text, known := wordsByCode[code]
	if !known {
		text = otherWords
	}
	if judgement, ok := judged[flag]; ok && code == codeDone {
		text = judgement
	}
	return frame.Text{Value: text}
}

// answer appends the frame that says a decision.
func answer(dst []byte, q request, d decision) ([]byte, error) {
	switch q.mti {
	case telegram.PaymentRequestMTI:
		return telegram.PaymentAnswer{
			TranID: q.tranID, ResponseCode: d.code, Message: words(d.code, nil, ""), ApprovalNo: d.approval,
		}.AppendTo(dst)
	case telegram.BalanceRequestMTI:
		return telegram.BalanceAnswer{
			TranID: q.tranID, Balance: d.balance, ResponseCode: d.code, Message: words(d.code, nil, ""),
		}.AppendTo(dst)
	case telegram.StatusRequestMTI:
		return telegram.StatusAnswer{
			TranID: q.tranID, Processed: d.flag, ResponseCode: d.code,
			Message: words(d.code, wordsByProcessed, d.flag),
		}.AppendTo(dst)
	case telegram.CancelRequestMTI:
		return telegram.CancelAnswer{
			TranID: q.tranID, CancelResult: d.flag, ResponseCode: d.code,
			Message: words(d.code, wordsByCancel, d.flag),
		}.AppendTo(dst)
	default:
		return dst, fmt.Errorf("no answer to a %s", q.mti)
	}
}
