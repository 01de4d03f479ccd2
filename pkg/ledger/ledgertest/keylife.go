package ledgertest

import (
	"time"

	"github.com/gwanmun/gwanmun/pkg/ledger"
)

var keyLifeCases = []conformance{
	{"key whose life is over is free once its transaction is final", expiredKeyOfFinalIsFree},
	{"key whose life is over is bound while its transaction is not final", expiredKeyOfPendingIsBound},
	{"key whose life is not over is bound though its transaction is final", livingKeyIsBound},
	{"same ID again is not created when the life of its key is over", sameIDAfterKeyLife},
	{"life of a key begins anew when it is bound again", keyLifeBeginsAnew},
	{"intent whose key has no life is refused", keyWithoutLife},
	{"race for a key whose life is over has one winner", expiredKeyRace},
}

// expired is a payment whose key lives no longer than it must.
func (b *book) expired() ledger.Intent {
	in := b.intent()
	in.KeyLife = -time.Second
	return in
}

func expiredKeyOfFinalIsFree(b *book) {
	for _, steps := range [][]step{
		{toSuccess}, {toDeclined}, {toNotSent}, {toUnknown, toLateSuccess}, {toUnknown, toCanceled},
	} {
		in := b.expired()
		b.create(in)
		for _, s := range steps {
			b.move(in.ID, s)
		}
		old := b.get(in.ID)
		for _, fingerprint := range []ledger.Hash{in.Fingerprint, {9}} {
			again := in
			again.ID, again.Fingerprint = b.newID(), fingerprint
			b.free("key of "+old.Status.String(), again)
		}
		again := in
		again.ID, again.Fingerprint, again.KeyLife = b.newID(), ledger.Hash{9}, time.Hour
		b.held("once bound again", b.create(again), again)
		b.same("row that held the key", old, b.get(in.ID))
	}
}

func expiredKeyOfPendingIsBound(b *book) {
	for _, steps := range [][]step{{}, {toUnknown}, {toUsedID}} {
		in := b.expired()
		b.create(in)
		for _, s := range steps {
			b.move(in.ID, s)
		}
		holder := b.get(in.ID)
		again := in
		again.ID = b.newID()
		b.held("key of "+holder.Status.String(), holder, again)
		admission, err := b.CreateIntent(b.ctx, again)
		if err != nil {
			b.Errorf("again: %v", err)
		}
		b.same("again", ledger.Admission{Transaction: holder}, admission)
		again.Fingerprint = ledger.Hash{9}
		_, err = b.CreateIntent(b.ctx, again)
		b.fails("another payment under the key", err, ledger.ErrKeyReused)
	}
}

func livingKeyIsBound(b *book) {
	in := b.intent()
	in.KeyLife = time.Minute
	b.create(in)
	holder := b.move(in.ID, toSuccess)
	again := in
	again.ID = b.newID()
	admission, err := b.CreateIntent(b.ctx, again)
	if err != nil {
		b.Errorf("again: %v", err)
	}
	b.same("again", ledger.Admission{Transaction: holder}, admission)
}

func sameIDAfterKeyLife(b *book) {
	in := b.expired()
	b.create(in)
	b.create(in) // it is not final
	want := b.move(in.ID, toSuccess)
	admission, err := b.CreateIntent(b.ctx, in)
	if err != nil {
		b.Errorf("again: %v", err)
	}
	b.same("again", ledger.Admission{Transaction: want}, admission)
}

func keyLifeBeginsAnew(b *book) {
	in := b.expired()
	b.create(in)
	b.move(in.ID, toDeclined)
	in.ID, in.KeyLife = b.newID(), time.Hour
	b.create(in)
	holder := b.move(in.ID, toSuccess)
	in.ID = b.newID()
	b.held("with a new life", holder, in)
}

func keyWithoutLife(b *book) {
	in := b.intent()
	in.KeyLife = 0
	_, err := b.CreateIntent(b.ctx, in)
	b.fails("no life", err, ledger.ErrInvalidRow)
	b.absent(in.ID)
}

func expiredKeyRace(b *book) {
	in := b.expired()
	b.create(in)
	b.move(in.ID, toSuccess)
	results := make([]ledger.Admission, 16)
	together(len(results), func(i int) {
		mine := in
		mine.ID, mine.Fingerprint, mine.KeyLife = b.newID(), ledger.Hash{7}, time.Hour
		admission, err := b.CreateIntent(b.ctx, mine)
		if err != nil {
			b.Errorf("create: %v", err)
		}
		results[i] = admission
	})
	holder, err := b.GetByKey(b.ctx, in.Client, in.Key)
	if err != nil {
		b.Fatal(err)
	}
	won := 0
	for _, r := range results {
		b.same("row that a caller was told of", holder, r.Transaction)
		if r.Created {
			won++
		}
	}
	if won != 1 {
		b.Errorf("%d bound the key again, want one", won)
	}
}
