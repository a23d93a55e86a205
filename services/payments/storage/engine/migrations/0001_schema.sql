-- Amounts are in minor units of the currency beside them. Ids are UUIDs that the service makes.
--
-- Every list of the API is kept in the order of commits: an element takes the next position of its owner (a
-- merchant, or an identity), and holds the owner's row until it commits. Whoever has seen a position has therefore
-- seen, or can see, all below it, and a cursor skips nothing and doubles nothing.

CREATE DOMAIN currency_code AS text CONSTRAINT currency_code_letters CHECK (VALUE ~ '^[A-Z]{3}$');

-- Narrow and half empty, so that each step is written in place.
CREATE TABLE positions (
  owner uuid PRIMARY KEY,
  last bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 50);

-- Who can be let in: an app by its key, a user by invitation.
CREATE TABLE identities (
  id uuid PRIMARY KEY,
  kind text NOT NULL CONSTRAINT identities_kind CHECK (kind IN ('app', 'user')),
  created timestamptz(3) NOT NULL,
  CONSTRAINT identities_id_kind UNIQUE (id, kind)
);

CREATE TABLE apps (
  id uuid PRIMARY KEY,
  kind text NOT NULL DEFAULT 'app' CONSTRAINT apps_kind CHECK (kind = 'app'),
  name text,
  CONSTRAINT apps_identity FOREIGN KEY (id, kind) REFERENCES identities (id, kind)
);

-- Keys are 256 random bits: SHA-256 without salt is all that hiding them takes.
CREATE TABLE app_keys (
  hash bytea PRIMARY KEY CONSTRAINT app_keys_hash CHECK (octet_length(hash) = 32),
  app_id uuid NOT NULL REFERENCES apps (id),
  created timestamptz(3) NOT NULL,
  expires timestamptz(3)
);
CREATE INDEX app_keys_prefix ON app_keys (substring(hash FROM 1 FOR 8));
CREATE INDEX app_keys_app ON app_keys (app_id);

CREATE TABLE users (
  id uuid PRIMARY KEY,
  kind text NOT NULL DEFAULT 'user' CONSTRAINT users_kind CHECK (kind = 'user'),
  email text NOT NULL,
  CONSTRAINT users_identity FOREIGN KEY (id, kind) REFERENCES identities (id, kind)
);
CREATE UNIQUE INDEX users_email ON users (lower(email));

CREATE TABLE merchants (
  id uuid PRIMARY KEY,
  key uuid NOT NULL CONSTRAINT merchants_key UNIQUE,
  -- Of the resource that the merchant was made for: makes its creation happen once.
  provision_uid text CONSTRAINT merchants_provision_uid UNIQUE,
  created timestamptz(3) NOT NULL,
  name text,
  currency currency_code NOT NULL,
  test boolean NOT NULL,
  email text NOT NULL,
  website text NOT NULL,
  descriptor text NOT NULL CONSTRAINT merchants_descriptor CHECK (descriptor ~ '^[ -~]{0,22}$'),
  country text NOT NULL CONSTRAINT merchants_country CHECK (country ~ '^[A-Z]{2}$'),
  company_number text,
  iban text,
  closed timestamptz(3),
  CONSTRAINT merchants_id_test UNIQUE (id, test)
);

CREATE TABLE merchant_apps (
  merchant_id uuid NOT NULL REFERENCES merchants (id),
  app_id uuid NOT NULL REFERENCES apps (id),
  position bigint NOT NULL,
  identity_position bigint NOT NULL,
  CONSTRAINT merchant_apps_once PRIMARY KEY (merchant_id, app_id),
  -- GET /merchants/:id/apps, GET /identities/:id/merchants
  CONSTRAINT merchant_apps_list UNIQUE (merchant_id, position),
  CONSTRAINT merchant_apps_merchants_list UNIQUE (app_id, identity_position)
);

CREATE TABLE merchant_users (
  merchant_id uuid NOT NULL REFERENCES merchants (id),
  user_id uuid NOT NULL REFERENCES users (id),
  invited timestamptz(3) NOT NULL,
  position bigint NOT NULL,
  identity_position bigint NOT NULL,
  CONSTRAINT merchant_users_once PRIMARY KEY (merchant_id, user_id),
  -- GET /merchants/:id/users, GET /identities/:id/merchants
  CONSTRAINT merchant_users_list UNIQUE (merchant_id, position),
  CONSTRAINT merchant_users_merchants_list UNIQUE (user_id, identity_position)
);

CREATE TABLE transactions (
  id uuid PRIMARY KEY,
  merchant_id uuid NOT NULL,
  test boolean NOT NULL,
  created timestamptz(3) NOT NULL,
  position bigint NOT NULL,
  currency currency_code NOT NULL,
  amount bigint NOT NULL CONSTRAINT transactions_amount CHECK (amount > 0),
  descriptor text NOT NULL CONSTRAINT transactions_descriptor CHECK (descriptor ~ '^[ -~]{0,22}$'),
  pending_amount bigint NOT NULL CONSTRAINT transactions_pending CHECK (pending_amount >= 0),
  captured_amount bigint NOT NULL CONSTRAINT transactions_captured CHECK (captured_amount >= 0),
  refunded_amount bigint NOT NULL CONSTRAINT transactions_refunded CHECK (refunded_amount >= 0),
  voided_amount bigint NOT NULL CONSTRAINT transactions_voided CHECK (voided_amount >= 0),
  disputed_amount bigint NOT NULL CONSTRAINT transactions_disputed CHECK (disputed_amount >= 0),
  refundable_value bigint NOT NULL,
  card_bin text NOT NULL,
  card_last4 text NOT NULL,
  card_expiry_year smallint NOT NULL,
  card_expiry_month smallint NOT NULL,
  card_scheme text NOT NULL CHECK (card_scheme IN ('visa', 'mastercard')),
  card_token text NOT NULL,
  card_fingerprint text NOT NULL,
  custom json,
  reference text,
  tds text CONSTRAINT transactions_tds CHECK (tds IN ('attempt', 'full')),
  recurring boolean NOT NULL,
  error smallint,
  expires timestamptz(3) NOT NULL,
  processor_reference text,
  CONSTRAINT transactions_buckets CHECK (amount = pending_amount + captured_amount + voided_amount),
  CONSTRAINT transactions_refundable CHECK (refunded_amount + disputed_amount <= captured_amount),
  CONSTRAINT transactions_declined CHECK (error IS NULL OR voided_amount = amount),
  CONSTRAINT transactions_card CHECK (
    card_bin ~ '^[0-9]{6}$' AND card_last4 ~ '^[0-9]{4}$' AND card_expiry_month BETWEEN 1 AND 12
  ),
  CONSTRAINT transactions_merchant FOREIGN KEY (merchant_id, test) REFERENCES merchants (id, test),
  CONSTRAINT transactions_id_merchant UNIQUE (id, merchant_id),
  -- GET /merchants/:id/transactions
  CONSTRAINT transactions_list UNIQUE (merchant_id, position)
) WITH (fillfactor = 80);
-- Authorisations that become void by time.
CREATE INDEX transactions_expiry ON transactions (expires) WHERE pending_amount > 0;

CREATE TABLE lines (
  id uuid PRIMARY KEY,
  merchant_id uuid NOT NULL,
  test boolean NOT NULL,
  created timestamptz(3) NOT NULL,
  position bigint NOT NULL,
  kind text NOT NULL CONSTRAINT lines_kind CHECK (
    kind IN ('capture', 'refund', 'dispute', 'dispute-won', 'payout')
  ),
  balance bigint NOT NULL,
  fee_flat bigint NOT NULL,
  fee_rate bigint NOT NULL,
  description text NOT NULL,
  transaction_id uuid,
  amount bigint NOT NULL CONSTRAINT lines_amount CHECK (amount >= 0),
  currency currency_code NOT NULL,
  CONSTRAINT lines_merchant FOREIGN KEY (merchant_id, test) REFERENCES merchants (id, test),
  CONSTRAINT lines_transaction FOREIGN KEY (transaction_id, merchant_id) REFERENCES transactions (id, merchant_id),
  -- GET /merchants/:id/lines
  CONSTRAINT lines_list UNIQUE (merchant_id, position)
);
CREATE INDEX lines_of_transaction ON lines (transaction_id, position);

CREATE TABLE disputes (
  id uuid PRIMARY KEY,
  merchant_id uuid NOT NULL,
  transaction_id uuid NOT NULL,
  created timestamptz(3) NOT NULL,
  position bigint NOT NULL,
  amount bigint NOT NULL CONSTRAINT disputes_amount CHECK (amount > 0),
  currency currency_code NOT NULL,
  status text NOT NULL CONSTRAINT disputes_status CHECK (status IN ('open', 'won', 'lost')),
  reason text,
  due timestamptz(3),
  held bigint NOT NULL,
  fee_flat bigint NOT NULL,
  fee_rate bigint NOT NULL,
  line_id uuid NOT NULL REFERENCES lines (id) DEFERRABLE INITIALLY DEFERRED,
  resolved timestamptz(3),
  CONSTRAINT disputes_resolved CHECK ((status = 'open') = (resolved IS NULL)),
  CONSTRAINT disputes_transaction FOREIGN KEY (transaction_id, merchant_id)
    REFERENCES transactions (id, merchant_id),
  -- The list of a merchant's disputes.
  CONSTRAINT disputes_list UNIQUE (merchant_id, position)
);
CREATE INDEX disputes_of_transaction ON disputes (transaction_id);

-- The number makes a doubled or lost entry impossible: whoever appends says how many there are.
CREATE TABLE trail_entries (
  transaction_id uuid NOT NULL REFERENCES transactions (id),
  number integer NOT NULL CONSTRAINT trail_entries_number CHECK (number >= 0),
  id uuid NOT NULL CONSTRAINT trail_entries_id UNIQUE,
  kind text NOT NULL CONSTRAINT trail_entries_kind CHECK (kind IN ('capture', 'refund', 'void', 'dispute')),
  dispute_id uuid REFERENCES disputes (id) DEFERRABLE INITIALLY DEFERRED,
  dispute_outcome text CONSTRAINT trail_entries_outcome CHECK (dispute_outcome IN ('won', 'lost')),
  created timestamptz(3) NOT NULL,
  amount bigint NOT NULL CONSTRAINT trail_entries_amount CHECK (amount > 0),
  balance bigint NOT NULL,
  fee_flat bigint NOT NULL,
  fee_rate bigint NOT NULL,
  descriptor text NOT NULL,
  -- Checked at the commit, so that the line, which holds the merchant, can come last.
  line_id uuid REFERENCES lines (id) DEFERRABLE INITIALLY DEFERRED,
  CONSTRAINT trail_entries_order PRIMARY KEY (transaction_id, number),
  CONSTRAINT trail_entries_dispute CHECK (
    (kind = 'dispute') = (dispute_id IS NOT NULL) AND (dispute_id IS NULL) = (dispute_outcome IS NULL)
  )
);

CREATE TABLE ledger_entries (
  id uuid PRIMARY KEY,
  merchant_id uuid NOT NULL,
  test boolean NOT NULL,
  created timestamptz(3) NOT NULL,
  kind text NOT NULL CONSTRAINT ledger_entries_kind CHECK (
    kind IN ('capture', 'refund', 'dispute', 'dispute-won', 'dispute-lost', 'payout')
  ),
  transaction_id uuid,
  dispute_id uuid REFERENCES disputes (id) DEFERRABLE INITIALLY DEFERRED,
  line_id uuid CONSTRAINT ledger_entries_line UNIQUE REFERENCES lines (id) DEFERRABLE INITIALLY DEFERRED,
  CONSTRAINT ledger_entries_merchant FOREIGN KEY (merchant_id, test) REFERENCES merchants (id, test),
  CONSTRAINT ledger_entries_transaction FOREIGN KEY (transaction_id, merchant_id)
    REFERENCES transactions (id, merchant_id),
  CONSTRAINT ledger_entries_id_merchant UNIQUE (id, merchant_id)
);
CREATE INDEX ledger_entries_of_merchant ON ledger_entries (merchant_id, created, id);

CREATE TABLE ledger_postings (
  entry_id uuid NOT NULL,
  number smallint NOT NULL,
  merchant_id uuid NOT NULL,
  account text NOT NULL CONSTRAINT ledger_postings_account CHECK (
    account IN ('merchant', 'clearing', 'fees', 'disputes', 'payouts', 'exchange')
  ),
  currency currency_code NOT NULL,
  amount bigint NOT NULL CONSTRAINT ledger_postings_amount CHECK (amount <> 0),
  CONSTRAINT ledger_postings_order PRIMARY KEY (entry_id, number),
  CONSTRAINT ledger_postings_entry FOREIGN KEY (entry_id, merchant_id) REFERENCES ledger_entries (id, merchant_id)
);
-- A merchant's balance is a sum over this index alone.
CREATE INDEX ledger_postings_balance ON ledger_postings (merchant_id, currency) INCLUDE (amount)
  WHERE account = 'merchant';

CREATE TABLE cards (
  id uuid PRIMARY KEY,
  merchant_id uuid NOT NULL REFERENCES merchants (id),
  created timestamptz(3) NOT NULL,
  position bigint NOT NULL,
  card_bin text NOT NULL,
  card_last4 text NOT NULL,
  card_expiry_year smallint NOT NULL,
  card_expiry_month smallint NOT NULL,
  card_scheme text NOT NULL CHECK (card_scheme IN ('visa', 'mastercard')),
  card_token text NOT NULL,
  card_fingerprint text NOT NULL,
  notes text,
  CONSTRAINT cards_card CHECK (
    card_bin ~ '^[0-9]{6}$' AND card_last4 ~ '^[0-9]{4}$' AND card_expiry_month BETWEEN 1 AND 12
  ),
  CONSTRAINT cards_list UNIQUE (merchant_id, position)
);

CREATE TABLE frauds (
  id uuid PRIMARY KEY,
  merchant_id uuid NOT NULL,
  transaction_id uuid NOT NULL,
  created timestamptz(3) NOT NULL,
  position bigint NOT NULL,
  reported timestamptz(3),
  reason smallint CONSTRAINT frauds_reason CHECK (reason BETWEEN 0 AND 8),
  CONSTRAINT frauds_transaction FOREIGN KEY (transaction_id, merchant_id) REFERENCES transactions (id, merchant_id),
  -- GET /frauds
  CONSTRAINT frauds_list UNIQUE (merchant_id, position)
);
CREATE INDEX frauds_of_transaction ON frauds (transaction_id, position);
