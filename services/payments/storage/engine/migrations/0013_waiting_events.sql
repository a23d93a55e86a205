-- Events of the processor whose cause is not in the books yet are stored too, with the outcome `waiting`.

-- When an event that waits is tried again.
ALTER TABLE processor_exceptions ADD COLUMN due timestamptz(3);
CREATE INDEX processor_exceptions_waiting ON processor_exceptions (due)
  WHERE closed IS NULL AND outcome = 'waiting';
