-- What goes to the card processor, and what comes from it.

-- What was decided by a commit and the processor is yet to be told. Told at least once, in the trail's order.
CREATE TABLE processor_instructions (
  transaction_id uuid NOT NULL,
  number integer NOT NULL,
  -- Of the trail entry: the processor knows by it what it was told before.
  operation_id uuid NOT NULL,
  kind text NOT NULL CONSTRAINT processor_instructions_kind CHECK (kind IN ('capture', 'refund', 'void')),
  test boolean NOT NULL,
  reference text NOT NULL,
  amount bigint NOT NULL CONSTRAINT processor_instructions_amount CHECK (amount > 0),
  currency currency_code NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  due timestamptz(3) NOT NULL,
  CONSTRAINT processor_instructions_order PRIMARY KEY (transaction_id, number),
  CONSTRAINT processor_instructions_entry FOREIGN KEY (transaction_id, number)
    REFERENCES trail_entries (transaction_id, number)
);
CREATE INDEX processor_instructions_due ON processor_instructions (due);

-- The processor's events name authorisations by its own references.
CREATE INDEX transactions_processor_reference ON transactions (processor_reference, test)
  WHERE processor_reference IS NOT NULL;

-- What the test processor will tell later. Rows stay, so that nothing is told twice.
CREATE TABLE test_processor_events (
  id text PRIMARY KEY,
  due timestamptz(3) NOT NULL,
  event json NOT NULL,
  told boolean NOT NULL DEFAULT false
);
CREATE INDEX test_processor_events_due ON test_processor_events (due) WHERE NOT told;
