-- GET /merchants/:id/lines with filter[created].
CREATE INDEX lines_created ON lines (merchant_id, created, id);
