-- What has come to its end is removed after a time: these find it, the oldest first.

CREATE INDEX webhook_deliveries_ended ON webhook_deliveries (coalesce(delivered, given_up))
  WHERE coalesce(delivered, given_up) IS NOT NULL;
CREATE INDEX webhook_endpoints_disabled ON webhook_endpoints (disabled) WHERE disabled IS NOT NULL;
CREATE INDEX mails_ended ON mails (coalesce(sent, given_up)) WHERE coalesce(sent, given_up) IS NOT NULL;
CREATE INDEX test_processor_events_told ON test_processor_events (due) WHERE told;
