-- Everything that the processor reports is booked or stored.

-- A dispute may be about more than what can be refunded: the payer's bank does not know of refunds.
ALTER TABLE transactions ADD COLUMN excess_disputed_amount bigint NOT NULL DEFAULT 0;
ALTER TABLE transactions DROP CONSTRAINT transactions_refundable;
-- Not validated: the constraint before it held for all rows that are there.
ALTER TABLE transactions ADD CONSTRAINT transactions_refundable CHECK (
  excess_disputed_amount BETWEEN 0 AND disputed_amount
  AND refunded_amount + disputed_amount - excess_disputed_amount <= captured_amount
) NOT VALID;
ALTER TABLE disputes ADD COLUMN excess bigint NOT NULL DEFAULT 0;
ALTER TABLE disputes ADD COLUMN excess_held bigint NOT NULL DEFAULT 0;

-- Events of the processor that could not be booked. They are acknowledged there once they are stored here.
CREATE TABLE processor_exceptions (
  id uuid PRIMARY KEY,
  -- The processor's own id of the event.
  event_id text NOT NULL,
  test boolean NOT NULL,
  event json NOT NULL,
  outcome text NOT NULL,
  reason text NOT NULL,
  created timestamptz(3) NOT NULL,
  -- When it was booked after all, or closed by hand, with the note of who did.
  closed timestamptz(3),
  note text,
  CONSTRAINT processor_exceptions_once UNIQUE (test, event_id),
  CONSTRAINT processor_exceptions_closed CHECK ((closed IS NULL) = (note IS NULL))
);
CREATE INDEX processor_exceptions_open ON processor_exceptions (created) WHERE closed IS NULL;
