-- An endpoint that was deleted is told nothing and shown nowhere. Its row stays, for an event that is stored at the
-- same time may be on its way to it.
ALTER TABLE webhook_endpoints ADD COLUMN deleted timestamptz(3);

-- What was paid out for a period, such as a day: the key makes it happen once, however often it is asked for.
CREATE TABLE payouts (
  merchant_id uuid NOT NULL REFERENCES merchants (id),
  period text NOT NULL,
  line_id uuid NOT NULL CONSTRAINT payouts_line UNIQUE REFERENCES lines (id),
  CONSTRAINT payouts_once PRIMARY KEY (merchant_id, period)
);
CREATE TRIGGER payouts_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON payouts
  FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
