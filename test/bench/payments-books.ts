import { hashApiKey } from '@tollway/payments/domain/ids.ts'
import type { PostgresServer } from '../support/postgres-server.ts'

/** Records of the benchmarks have numbers, from which their ids are derived, here and in SQL. */
export const appId = '00000000-0000-7000-b000-000000000000'
export const apiKey = 'tollway_of-the-benchmarks'
export const merchants = 32

const idDigits = 12
const transactionIds = '00000000-0000-7000-8000-'
const merchantIds = '00000000-0000-7000-a000-'

export function transactionId(number: number): string {
  return `${transactionIds}${String(number).padStart(idDigits, '0')}`
}

export function merchantId(number: number): string {
  return `${merchantIds}${String(number).padStart(idDigits, '0')}`
}

/** Returns the id of a record that is created with a transaction: one of each kind. */
export function idInSql(prefix: string, number: string): string {
  return `('${prefix}' || lpad((${number})::text, ${idDigits}, '0'))::uuid`
}

export function transactionIdInSql(number: string): string {
  return idInSql(transactionIds, number)
}

export function merchantIdInSql(number: string): string {
  return idInSql(merchantIds, number)
}

/** Larger than the position of any transaction here, so that lists continue after them. */
const firstPosition = 1_000_000_000

/** Inserts an app with merchants without transactions. */
export async function seedMerchants({ sql }: PostgresServer, database: string): Promise<void> {
  const id = merchantIdInSql('n')
  const owners = `FROM generate_series(0, ${merchants - 1}) n`
  await sql(
    `INSERT INTO identities (id, kind, created) VALUES ('${appId}', 'app', now());
     INSERT INTO apps (id, name) VALUES ('${appId}', 'bench');
     INSERT INTO app_keys (hash, app_id, created) VALUES ('\\x${hashApiKey(apiKey)}', '${appId}', now());
     INSERT INTO merchants (id, key, created, currency, test, email, website, descriptor, country)
       SELECT ${id}, ${id}, now(), 'DKK', true, 'jane@example.com', 'https://example.com', 'Coffee', 'DK'
       ${owners};
     INSERT INTO positions (owner, last) VALUES ('${appId}', ${firstPosition});
     INSERT INTO positions (owner, last) SELECT ${id}, ${firstPosition} ${owners};
     INSERT INTO merchant_apps (merchant_id, app_id, position, identity_position)
       SELECT ${id}, '${appId}', 1, n ${owners}`,
    database,
  )
}

export interface NumberedTransactions {
  readonly from: number
  readonly count: number
  /** Transaction n belongs to merchant n modulo this. */
  readonly merchants: number
}

export const transactionAmount = 1_000_000_000

/** Inserts transactions that are authorised and not captured. */
export async function seedTransactions(
  { sql }: PostgresServer,
  database: string,
  { from, count, merchants: owners }: NumberedTransactions,
): Promise<void> {
  await sql(
    `INSERT INTO transactions (id, merchant_id, test, created, position, currency, amount, descriptor,
       pending_amount, captured_amount, refunded_amount, voided_amount, disputed_amount, refundable_value,
       card_bin, card_last4, card_expiry_year, card_expiry_month, card_scheme, card_token, card_fingerprint,
       recurring, expires, processor_reference)
     SELECT ${transactionIdInSql('n')}, ${merchantIdInSql(`n % ${owners}`)}, true, now(), n, 'DKK',
       ${transactionAmount}, 'Coffee', ${transactionAmount}, 0, 0, 0, 0, 0,
       '410000', '0001', 2030, 12, 'visa', 'token', 'fingerprint', false, now() + interval '1 day',
       'test_success_' || n
     FROM generate_series(${from}, ${from + count - 1}) n`,
    database,
  )
  // The server would start this by itself within a minute, in the middle of a round.
  await sql('VACUUM ANALYZE', database)
}
