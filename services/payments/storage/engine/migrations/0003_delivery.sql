-- What makes a request happen once, and what is still to be told to others.

-- The key is kept as its hash, for it is also what a secret answer is encrypted with.
CREATE TABLE idempotency_keys (
  scope text NOT NULL,
  key_hash bytea NOT NULL,
  fingerprint bytea NOT NULL,
  state text NOT NULL CONSTRAINT idempotency_keys_state CHECK (state IN ('in-progress', 'done')),
  -- Of a request in progress: who runs it, and until when nobody else may.
  owner uuid,
  lease_until timestamptz(3),
  -- What the request is called towards others, such as the processor, however often it is begun.
  reference uuid,
  status smallint,
  body bytea,
  sealed boolean NOT NULL DEFAULT false,
  created timestamptz(3) NOT NULL,
  expires timestamptz(3) NOT NULL,
  CONSTRAINT idempotency_keys_once PRIMARY KEY (scope, key_hash),
  CONSTRAINT idempotency_keys_hashes CHECK (octet_length(key_hash) = 32 AND octet_length(fingerprint) = 32),
  CONSTRAINT idempotency_keys_whole CHECK (
    CASE state
      WHEN 'done' THEN status IS NOT NULL AND body IS NOT NULL
      ELSE owner IS NOT NULL AND lease_until IS NOT NULL AND reference IS NOT NULL
    END
  )
);
CREATE INDEX idempotency_keys_expiry ON idempotency_keys (expires);

-- Mail that was promised by a commit. Sent at least once.
CREATE TABLE mails (
  id uuid PRIMARY KEY,
  created timestamptz(3) NOT NULL,
  template text NOT NULL,
  recipient text NOT NULL,
  content json NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  due timestamptz(3) NOT NULL,
  sent timestamptz(3),
  given_up timestamptz(3)
);
CREATE INDEX mails_due ON mails (due) WHERE sent IS NULL AND given_up IS NULL;

CREATE TABLE webhook_endpoints (
  id uuid PRIMARY KEY,
  merchant_id uuid NOT NULL REFERENCES merchants (id),
  created timestamptz(3) NOT NULL,
  position bigint NOT NULL,
  url text NOT NULL,
  -- Empty for all.
  events text[] NOT NULL,
  -- The newest first; two of them while they are rotated.
  secrets text[] NOT NULL CONSTRAINT webhook_endpoints_secrets CHECK (cardinality(secrets) BETWEEN 1 AND 2),
  disabled timestamptz(3),
  CONSTRAINT webhook_endpoints_list UNIQUE (merchant_id, position)
);

-- The log of what happened, to be read again at any time.
CREATE TABLE webhook_events (
  id uuid PRIMARY KEY,
  merchant_id uuid NOT NULL REFERENCES merchants (id),
  created timestamptz(3) NOT NULL,
  position bigint NOT NULL,
  type text NOT NULL,
  subject_id uuid NOT NULL,
  body text NOT NULL,
  CONSTRAINT webhook_events_list UNIQUE (merchant_id, position)
);

-- An endpoint gets the events of one subject in their order: the next waits until the one before is through.
CREATE TABLE webhook_deliveries (
  endpoint_id uuid NOT NULL REFERENCES webhook_endpoints (id),
  event_id uuid NOT NULL REFERENCES webhook_events (id),
  subject_id uuid NOT NULL,
  position bigint NOT NULL,
  attempts integer NOT NULL DEFAULT 0,
  due timestamptz(3) NOT NULL,
  delivered timestamptz(3),
  given_up timestamptz(3),
  last_error text,
  CONSTRAINT webhook_deliveries_once PRIMARY KEY (endpoint_id, event_id)
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (due) WHERE delivered IS NULL AND given_up IS NULL;
CREATE INDEX webhook_deliveries_order ON webhook_deliveries (endpoint_id, subject_id, position)
  WHERE delivered IS NULL AND given_up IS NULL;
