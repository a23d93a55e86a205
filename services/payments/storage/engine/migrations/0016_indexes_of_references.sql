-- PostgreSQL looks for deliveries of each event that is deleted, and the replay of the books for entries of lost disputes.
CREATE INDEX IF NOT EXISTS webhook_deliveries_of_event ON webhook_deliveries (event_id);
CREATE INDEX IF NOT EXISTS ledger_entries_of_dispute ON ledger_entries (dispute_id) WHERE dispute_id IS NOT NULL;
