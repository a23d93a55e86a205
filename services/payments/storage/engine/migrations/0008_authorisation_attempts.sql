-- Authorisations that the processor may have been asked for and whose outcome is not stored. A row is written before
-- the processor is asked and removed in the transaction that stores the outcome.
CREATE TABLE authorisation_attempts (
  -- The operation id at the processor, and the id of the payment.
  reference uuid PRIMARY KEY,
  -- The idempotency key whose request asked.
  scope text NOT NULL,
  key_hash bytea NOT NULL,
  merchant_id uuid NOT NULL REFERENCES merchants (id),
  test boolean NOT NULL,
  amount bigint NOT NULL CONSTRAINT authorisation_attempts_amount CHECK (amount > 0),
  currency currency_code NOT NULL,
  created timestamptz(3) NOT NULL,
  -- When the sweep next looks at it, and how often it has done so.
  due timestamptz(3) NOT NULL,
  tries integer NOT NULL DEFAULT 0
);
CREATE INDEX authorisation_attempts_due ON authorisation_attempts (due);

-- What the test processor answered. A repeated question gets the same answer.
CREATE TABLE test_processor_answers (
  operation_id text PRIMARY KEY,
  approved boolean NOT NULL,
  answer json NOT NULL,
  created timestamptz(3) NOT NULL,
  cancelled timestamptz(3)
);
CREATE INDEX test_processor_answers_created ON test_processor_answers (created);
