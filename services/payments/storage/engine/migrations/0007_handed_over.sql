-- Resources whose merchant another one has taken over: they never get one again, whenever they ask.
CREATE TABLE provisions_handed_over (
  uid text PRIMARY KEY,
  merchant_id uuid NOT NULL REFERENCES merchants (id),
  created timestamptz(3) NOT NULL
);
