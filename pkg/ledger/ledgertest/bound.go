package ledgertest

import "github.com/gwanmun/gwanmun/pkg/ledger"

var boundCases = []conformance{
	{"key that nobody bound is free", unboundKeyIsFree},
	{"key of what was never sent is free for any fingerprint", neverSentKeyIsFree},
	{"key that is bound shows the current state", boundKeyShowsCurrentState},
	{"key that is bound is refused for another fingerprint", boundKeyIsRefused},
}

// free fails the case unless the key of the intent may be bound by it.
func (b *book) free(what string, in ledger.Intent) {
	b.Helper()
	_, err := b.Bound(b.ctx, in.Client, in.Key, in.Fingerprint)
	b.fails(what, err, ledger.ErrNotFound)
}

// held fails the case unless the transaction holds the key of the intent.
func (b *book) held(what string, want ledger.Transaction, in ledger.Intent) {
	b.Helper()
	got, err := b.Bound(b.ctx, in.Client, in.Key, in.Fingerprint)
	if err != nil {
		b.Errorf("%s: %v", what, err)
	}
	b.same(what, want, got)
}

func unboundKeyIsFree(b *book) {
	in := b.intent()
	b.create(in)
	for what, change := range map[string]func(in *ledger.Intent){
		"another client": func(in *ledger.Intent) { in.Client = "another" },
		"another key":    func(in *ledger.Intent) { in.Key = "another" },
		"no client":      func(in *ledger.Intent) { in.Client = "" },
		"no key":         func(in *ledger.Intent) { in.Key = "" },
		"pattern":        func(in *ledger.Intent) { in.Client, in.Key = "%", "%" },
	} {
		other := in
		change(&other)
		b.free(what, other)
	}
}

func neverSentKeyIsFree(b *book) {
	in := b.intent()
	b.create(in)
	b.move(in.ID, toNotSent)
	b.free("the same payment", in)
	other := in
	other.ID, other.Fingerprint = b.newID(), ledger.Hash{9}
	b.free("another payment", other)
	b.held("once bound again", b.create(other), other)
	_, err := b.Bound(b.ctx, in.Client, in.Key, in.Fingerprint)
	b.fails("the first payment, once bound again", err, ledger.ErrKeyReused)
}

func boundKeyShowsCurrentState(b *book) {
	for _, steps := range [][]step{{}, {toSuccess}, {toDeclined}, {toUnknown}, {toUnknown, toCanceled}, {toUsedID}} {
		in := b.intent()
		b.create(in)
		for _, s := range steps {
			b.move(in.ID, s)
		}
		b.held("holder of the key", b.get(in.ID), in)
	}
}

func boundKeyIsRefused(b *book) {
	for _, steps := range [][]step{{}, {toSuccess}, {toDeclined}, {toUnknown}, {toUnknown, toCanceled}} {
		in := b.intent()
		b.create(in)
		for _, s := range steps {
			b.move(in.ID, s)
		}
		_, err := b.Bound(b.ctx, in.Client, in.Key, ledger.Hash{9})
		b.fails("another payment under the key", err, ledger.ErrKeyReused)
	}
}
