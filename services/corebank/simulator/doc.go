// Package simulator is the fake bank: it answers the telegrams of the core's
// link port and listing port from accounts of its own, keeps a journal of all it did, and behaves
// as badly as it is told to. The corebank binary serves it over TCP on a SQLite
// book; tests of every other part use it in memory, over net.Pipe and under
// virtual time. It knows no RPC and no part of the gateway but the telegrams.
//
// # What is where
//
//   - Book keeps the journal: MemoryBook for tests, SQLiteBook on disk.
//   - Bank decides one frame after the other by the rules below.
//   - Server reads frames from connections, lets a fault or an account's habit
//     bend what happens, and writes the answers.
//   - Faults are set and cleared while it runs. A fault that strikes a frame
//     replaces the habit of its account.
//
// # The rules
//
// A payment (0100) is judged in this order: its ID is fenced, 0096; its ID was
// used before, 0094, unless the bank does not dedupe; the all-zero account,
// 0001; an amount of 0, 0013; too little money, 0051; else the account is
// debited. An ID is used by every payment that was decided under it, declined
// ones too; a frame that was closed without deciding uses nothing. The fence
// comes first because it says more: nothing was or will be done under that ID.
//
// A status inquiry (0400) says 01 while a debit of the ID stands, else 03 when
// one was canceled or the ID is fenced, else 02.
//
// A net cancel (0420) undoes every debit of the ID that stands, and says 01; it
// says so again when all were undone before. When there is none it says 02, and
// from then on, for ever, payments under the ID are refused: the ID is fenced.
// A bank that does not fence forgets that it was asked; what is fenced already
// it goes on refusing.
//
// A bank that does not dedupe may hold several debits of one ID, on several
// accounts. One cancel undoes them all in one journal entry, whose amount is
// their sum; after it the ID can be debited again, as at a host that has no
// notion of idempotency. The entries of one ID always add up: its debits less
// its cancels are what stands.
//
// # Listings
//
// A history (0300) tells what came into an account and went out of it, newest
// first: its opening, payments, cancels, and what the bank's staff set. A book
// (0500) tells the payments that were done under IDs which bear a day, by ID,
// whatever day they were done on; one whose ID is of another form than the
// gateway's bears no day and stands in no book. A debit that was undone stays,
// as canceled; an ID that was debited several times bears the sum. Both are kept
// in memory beside what is decided by, made of the same records. A listing
// changes nothing and is no entry of the journal; one that some field could not
// carry is declined (0099). Faults strike listings, habits do not.
//
// # Faults and the journal
//
// Whatever strikes a frame of the link port, it is one entry: of what the bank decided, not of
// what it then said or failed to say. A frame that a fault drops undecided, and
// a frame that follows on a connection that has fallen silent, is an entry
// without code and effect, and uses no ID. Frames that wait behind one that is
// held on their connection have not arrived yet.
//
// # Why nothing that was seen is lost
//
// Decisions are made in memory, one after the other under one lock, and each
// becomes exactly one journal entry, numbered in the order of decision. The
// fence check and the debit are one decision. Entries reach the book in that
// order, in batches that are committed whole: what the book holds is always a
// prefix of what was decided. Every answer waits until its own entry is in the
// book, an inquiry's too. It can have seen only decisions before its own, and
// they are in the book with it. So no one outside ever learned of a decision
// that a crash can take back; a decision that a crash does take back was seen
// by nobody, and is as if its frame had never arrived.
//
// State is made from the book by the very function that changes it while the
// bank runs (state.apply), so a bank that was killed comes back as it was.
//
// When the book cannot be written, memory is ahead of it and nothing can be
// said any more: no answer leaves, the Bank refuses all further work for good,
// and Server.Serve returns the error so that the process ends and starts over
// from the book. It does not try again: after a failed sync the kernel may have
// dropped the pages that a second sync would then call safe.
package simulator
