-- History is added to and never changed, whoever asks.

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'rows of % are never changed or removed', TG_TABLE_NAME
    USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = TG_TABLE_NAME || '_append_only';
END
$$;

CREATE TRIGGER lines_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON lines
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER trail_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON trail_entries
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_entries
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER ledger_postings_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON ledger_postings
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER transactions_kept BEFORE DELETE OR TRUNCATE ON transactions
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Only the amounts of a transaction move.
CREATE FUNCTION refuse_rewriting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION 'only the amounts of a transaction change'
    USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'transactions_immutable';
END
$$;

CREATE TRIGGER transactions_immutable BEFORE UPDATE ON transactions FOR EACH ROW
  WHEN (ROW (OLD.id, OLD.merchant_id, OLD.test, OLD.created, OLD.position, OLD.currency, OLD.amount, OLD.card_token,
             OLD.card_bin, OLD.card_last4, OLD.card_fingerprint, OLD.recurring, OLD.error)
        IS DISTINCT FROM
        ROW (NEW.id, NEW.merchant_id, NEW.test, NEW.created, NEW.position, NEW.currency, NEW.amount, NEW.card_token,
             NEW.card_bin, NEW.card_last4, NEW.card_fingerprint, NEW.recurring, NEW.error))
  EXECUTE FUNCTION refuse_rewriting();

-- Each entry's postings come in one statement, and must balance by themselves: then all of them always do.
CREATE FUNCTION check_postings_balance() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
  unbalanced record;
BEGIN
  SELECT entry_id, currency, sum(amount) AS total INTO unbalanced
    FROM added GROUP BY entry_id, currency HAVING sum(amount) <> 0 LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'the postings of entry % sum up to % %, not to zero',
      unbalanced.entry_id, unbalanced.total, unbalanced.currency
      USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'ledger_postings_zero';
  END IF;
  RETURN NULL;
END
$$;

CREATE TRIGGER ledger_postings_zero AFTER INSERT ON ledger_postings
  REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION check_postings_balance();

-- At the commit an entry has its postings.
CREATE FUNCTION check_entry_has_postings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF (SELECT count(*) FROM ledger_postings WHERE entry_id = NEW.id) < 2 THEN
    RAISE EXCEPTION 'entry % has fewer than two postings', NEW.id
      USING ERRCODE = 'integrity_constraint_violation', CONSTRAINT = 'ledger_entries_posted';
  END IF;
  RETURN NULL;
END
$$;

CREATE CONSTRAINT TRIGGER ledger_entries_posted AFTER INSERT ON ledger_entries
  DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION check_entry_has_postings();
