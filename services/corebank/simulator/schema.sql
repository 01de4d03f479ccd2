-- The bank's own book, in two append-only tables. It holds account numbers in
-- full: nobody but the bank reads it.
CREATE TABLE journal (
  sequence       INTEGER PRIMARY KEY CHECK (sequence > 0),
  at_unix_nano   INTEGER NOT NULL,
  mti            TEXT    NOT NULL CHECK (mti IN ('0100', '0200', '0400', '0420')),
  transaction_id TEXT    NOT NULL CHECK (length(transaction_id) BETWEEN 1 AND 22),
  account        TEXT    NOT NULL CHECK (length(account) IN (0, 14)),
  amount_won     INTEGER NOT NULL CHECK (amount_won >= 0),
  effect         TEXT    NOT NULL CHECK (effect IN ('NONE', 'DEBIT', 'CANCEL', 'FENCE')),
  response_code  TEXT    NOT NULL CHECK (length(response_code) IN (0, 4)),
  connection     INTEGER NOT NULL
) STRICT;

CREATE INDEX journal_of_transaction ON journal (transaction_id, sequence);

CREATE TABLE settings (
  number         INTEGER PRIMARY KEY CHECK (number > 0),
  after_sequence INTEGER NOT NULL CHECK (after_sequence >= 0),
  at_unix_nano   INTEGER NOT NULL,
  account        TEXT    NOT NULL CHECK (length(account) = 14),
  balance_won    INTEGER NOT NULL CHECK (balance_won >= 0)
) STRICT;

CREATE TRIGGER journal_is_not_edited BEFORE UPDATE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER journal_is_not_shortened BEFORE DELETE ON journal
BEGIN SELECT RAISE(ABORT, 'the journal is append-only'); END;
CREATE TRIGGER settings_are_not_edited BEFORE UPDATE ON settings
BEGIN SELECT RAISE(ABORT, 'settings are append-only'); END;
CREATE TRIGGER settings_are_not_dropped BEFORE DELETE ON settings
BEGIN SELECT RAISE(ABORT, 'settings are append-only'); END;

-- Sequences ascend by one: no second writer, and no REPLACE, which would get
-- past the triggers above.
CREATE TRIGGER journal_has_no_gap BEFORE INSERT ON journal
WHEN NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM journal)
BEGIN SELECT RAISE(ABORT, 'the journal ascends by one'); END;
CREATE TRIGGER settings_have_no_gap BEFORE INSERT ON settings
WHEN NEW.number IS NOT (SELECT coalesce(max(number), 0) + 1 FROM settings)
BEGIN SELECT RAISE(ABORT, 'settings ascend by one'); END;
