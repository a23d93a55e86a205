-- GET /merchants/:id/transactions with filter[created] or filter[reference], and the amount that is pending.
CREATE INDEX transactions_created ON transactions (merchant_id, created, id);
CREATE INDEX transactions_reference ON transactions (merchant_id, reference, position) WHERE reference IS NOT NULL;
CREATE INDEX transactions_pending_of_merchant ON transactions (merchant_id) WHERE pending_amount > 0;
