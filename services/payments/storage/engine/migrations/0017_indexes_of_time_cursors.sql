-- Lists with a time as their cursor.
CREATE INDEX IF NOT EXISTS disputes_created ON disputes (merchant_id, created, position);
CREATE INDEX IF NOT EXISTS frauds_created ON frauds (merchant_id, created, position);
CREATE INDEX IF NOT EXISTS webhook_events_created ON webhook_events (merchant_id, created, position);
