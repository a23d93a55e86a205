-- How often was invited lately, by the app, by the merchant, and to the recipient, whose address is kept as a hash.
CREATE TABLE invitation_counts (
  subject text PRIMARY KEY,
  -- When the window began that the count is of.
  since timestamptz(3) NOT NULL,
  count integer NOT NULL CONSTRAINT invitation_counts_count CHECK (count > 0)
);
CREATE INDEX invitation_counts_since ON invitation_counts (since);

-- A merchant knows a member by an id and an address of its own, which say nothing of other merchants' members. Members
-- from before are known by the id and the address of the user.
ALTER TABLE merchant_users ADD COLUMN member_id uuid;
ALTER TABLE merchant_users ADD COLUMN email text;
