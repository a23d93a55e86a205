-- PostgreSQL updates a row in place, without an entry in any index, if no column of an index changes. The predicates of
-- indexes count as their columns, and therefore refer to a column that changes only when nothing is pending any more.

ALTER TABLE transactions ADD COLUMN has_pending boolean NOT NULL DEFAULT false;

-- Processes of the version before write pending_amount alone.
CREATE FUNCTION set_has_pending() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  NEW.has_pending := NEW.pending_amount > 0;
  RETURN NEW;
END
$$;
CREATE TRIGGER transactions_has_pending BEFORE INSERT OR UPDATE OF pending_amount, has_pending ON transactions
  FOR EACH ROW WHEN (NEW.has_pending <> (NEW.pending_amount > 0)) EXECUTE FUNCTION set_has_pending();
UPDATE transactions SET has_pending = true WHERE pending_amount > 0;

DROP INDEX transactions_expiry;
DROP INDEX transactions_pending_of_merchant;
-- Authorisations that expire, and the pending amount of a merchant.
CREATE INDEX transactions_open_expiry ON transactions (expires) WHERE has_pending;
CREATE INDEX transactions_open_of_merchant ON transactions (merchant_id) WHERE has_pending;

-- The condition is read and planned in each statement that the trigger applies to: only in one that sets such a column.
DROP TRIGGER transactions_immutable ON transactions;
CREATE TRIGGER transactions_immutable BEFORE UPDATE OF id, merchant_id, test, created, position, currency, amount,
    card_token, card_bin, card_last4, card_fingerprint, recurring, error ON transactions FOR EACH ROW
  WHEN (ROW (OLD.id, OLD.merchant_id, OLD.test, OLD.created, OLD.position, OLD.currency, OLD.amount, OLD.card_token,
             OLD.card_bin, OLD.card_last4, OLD.card_fingerprint, OLD.recurring, OLD.error)
        IS DISTINCT FROM
        ROW (NEW.id, NEW.merchant_id, NEW.test, NEW.created, NEW.position, NEW.currency, NEW.amount, NEW.card_token,
             NEW.card_bin, NEW.card_last4, NEW.card_fingerprint, NEW.recurring, NEW.error))
  EXECUTE FUNCTION refuse_rewriting();
