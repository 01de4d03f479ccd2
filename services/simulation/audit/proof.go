package audit

import "github.com/gwanmun/gwanmun/pkg/ledger"

// The message types of the link port.
const (
	mtiPayment = "0100"
	mtiInquiry = "0200"
	mtiStatus  = "0400"
	mtiCancel  = "0420"
)

// proven holds the evidence of a payment against what the core's journal has of it,
// in the end.
func (a *Auditor) proven(p *payment) {
	t := &p.row
	holds := true
	switch t.Evidence {
	case ledger.EvidenceNotSent:
		holds = len(p.entries) == 0 && t.SentAt.IsZero()
	case ledger.EvidenceAnswered:
		holds = p.entries[mtiPayment] > 0 && t.Answer.Code != "" && (t.Answer.Approval != "") == (t.Status == ledger.StatusSuccess)
	case ledger.EvidenceProcessed:
		holds = t.Status == ledger.StatusSuccess && t.Policy == ledger.PolicyConfirm && p.entries[mtiStatus] > 0 && p.entries[mtiCancel] == 0
	case ledger.EvidenceCancelConfirmed:
		// The core says "canceled" of what it fenced off, too.
		holds = p.entries[mtiCancel] > 0 && p.cancels == p.debits && (p.cancels > 0 || p.fenced)
	case ledger.EvidenceFenced:
		holds = p.entries[mtiCancel] > 0 && p.fenced && p.debits == 0
	case ledger.EvidenceWindowElapsed:
		holds = p.entries[mtiStatus] > 1 && p.debits == 0
	case ledger.EvidenceOperator:
		holds = t.Method == ledger.MethodOperator && t.Reason != "" && (t.Status != ledger.StatusSuccess || p.entries[mtiCancel] == 0)
	default:
	}
	if !holds {
		a.broken("evidence holds", p.id, "%s on %s, entries %v, debits %d, cancels %d, fenced %t, answered %q", t.Status, t.Evidence,
			p.entries, p.debits, p.cancels, p.fenced, t.Answer.Code)
	}
	if p.entries[mtiCancel] > 0 && t.Decision == 0 {
		a.broken("a decision comes before a net cancel", p.id, "the core has one, and the row has no decision")
	}
}

// lasts holds a row in the end against what was told of it, and an inquiry against
// what it cost. A row that is written behind its answer may be lost with its process;
// which process may lose one, Drained knows.
func (a *Auditor) lasts(p *payment) {
	last := standing{p.row.Status, p.row.Evidence}
	switch {
	case p.said == (standing{}):
	case p.seen && p.said != last:
		a.broken("a reply says what the row says", p.id, "%s %s was told, the row is %s %s in the end", p.said.status, p.said.evidence, last.status, last.evidence)
	case !p.seen && !p.behind && p.said.evidence != ledger.EvidenceNotSent:
		a.broken("a reply says what the row says", p.id, "%s %s was told, and there is no row", p.said.status, p.said.evidence)
	}
	if p.seen && !p.row.Kind.MovesMoney() && p.entries[mtiPayment]+p.entries[mtiStatus]+p.entries[mtiCancel] > 0 {
		a.broken("an inquiry costs no frame of a payment", p.id, "the core has %v", p.entries)
	}
}
