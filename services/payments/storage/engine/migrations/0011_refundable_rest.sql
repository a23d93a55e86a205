-- What the exact value of the refundable amount is above refundable_value, in units of 10^-18 of a minor unit: so that the
-- roundings of partial refunds and disputes do not add up. A transaction from before begins with a whole value.
ALTER TABLE transactions ADD COLUMN refundable_rest bigint NOT NULL DEFAULT 0;
