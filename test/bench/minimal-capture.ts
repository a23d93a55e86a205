import type { PostgresServer } from '../support/postgres-server.ts'
import { idInSql, merchantIdInSql, type NumberedTransactions, transactionIdInSql } from './payments-books.ts'

/**
 * The least that a capture can be in PostgreSQL: narrow tables with a primary key each, without foreign keys,
 * checks, triggers, lists or look-ups of who asks. A yardstick of what the service adds to it.
 */
const schema = `
  CREATE TABLE transactions (id uuid PRIMARY KEY, merchant_id uuid NOT NULL, pending bigint NOT NULL,
    captured bigint NOT NULL) WITH (fillfactor = 80);
  CREATE TABLE trail (transaction_id uuid, number int, amount bigint NOT NULL, created timestamptz NOT NULL,
    PRIMARY KEY (transaction_id, number));
  CREATE TABLE ledger (id uuid, account text, amount bigint NOT NULL, created timestamptz NOT NULL,
    PRIMARY KEY (id, account));
  CREATE TABLE keys (hash bytea PRIMARY KEY, status int NOT NULL, body text NOT NULL,
    created timestamptz NOT NULL);
  CREATE TABLE events (id uuid PRIMARY KEY, merchant_id uuid NOT NULL, body text NOT NULL,
    created timestamptz NOT NULL);`

/** The body has as many bytes as the answer and the event of a capture. */
const body = `repeat('x', 1000)`

/** The 8 statements of a capture, and its commit, for pgbench; see `captureScript` for the variables. */
export function minimalCaptureScript(merchants: number): string {
  const id = transactionIdInSql(':t')
  const event = idInSql('00000000-0000-7000-9000-', ':t')
  const now = 'now()'
  return `\\set t :first + :client_id * :each + :done
\\set done :done + 1
BEGIN;
SELECT pending, captured FROM transactions WHERE id = ${id} FOR UPDATE;
INSERT INTO trail VALUES (${id}, 0, 100, ${now});
UPDATE transactions SET pending = pending - 100, captured = captured + 100 WHERE id = ${id};
INSERT INTO ledger VALUES (${id}, 'clearing', -100, ${now});
INSERT INTO ledger VALUES (${id}, 'merchant', 100, ${now});
INSERT INTO keys VALUES (sha256((:t)::text::bytea), 201, ${body}, ${now});
INSERT INTO events VALUES (${event}, ${merchantIdInSql(`:t % ${merchants}`)}, ${body}, ${now});
COMMIT;
`
}

export async function createMinimalBooks({ createDatabase, sql }: PostgresServer, name: string) {
  await createDatabase(name)
  await sql(schema, name)
}

export async function seedMinimalTransactions(
  { sql }: PostgresServer,
  name: string,
  { from, count, merchants }: NumberedTransactions,
): Promise<void> {
  const owner = merchantIdInSql(`n % ${merchants}`)
  await sql(
    `INSERT INTO transactions SELECT ${transactionIdInSql('n')}, ${owner}, 1000000000, 0
     FROM generate_series(${from}, ${from + count - 1}) n`,
    name,
  )
  await sql('VACUUM ANALYZE', name)
}
