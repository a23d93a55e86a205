-- The result of the last proof of the books. It has at most one row, which the next proof replaces.
CREATE TABLE last_verification (
  only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
  began timestamptz(3) NOT NULL,
  ended timestamptz(3) NOT NULL,
  records json NOT NULL,
  findings bigint NOT NULL CHECK (findings >= 0),
  shown json NOT NULL
);
