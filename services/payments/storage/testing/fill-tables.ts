/** Returns the id of row `number` in the table of this kind, as `fillTables` creates it. */
export const rowId = (kind: number, number: number) =>
  `0000000${kind}-0000-7000-8000-${number.toString(16).padStart(12, '0')}`

export const kinds = {
  transaction: 1,
  line: 2,
  entry: 3,
  dispute: 4,
  fraud: 5,
  event: 6,
  endpoint: 7,
  other: 8,
}

/** Returns the time of row `number`: `number` seconds after the start of 2026. */
export const rowTimeMs = (number: number) => Date.UTC(2026, 0, 1) + number * 1_000

/**
 * Returns statements, for the superuser, that insert `rows` rows into each table that grows with use. The
 * first merchant has the even rows, and the other merchants share the odd ones. The rows are not valid books,
 * because they serve only to measure query plans.
 */
export function fillTables(merchantIds: readonly string[], rows: number): string {
  const id = (kind: number) => `('0000000${kind}-0000-7000-8000-' || lpad(to_hex(n), 12, '0'))::uuid`
  const { transaction, line, entry, dispute, fraud, event, endpoint, other } = kinds
  const [first, ...others] = merchantIds.map(merchantId => `'${merchantId}'::uuid`)
  const anyOther = `(ARRAY[${others.join(',')}])[1 + n / 2 % ${others.length}]`
  const merchant = `CASE n % 2 WHEN 0 THEN ${first} ELSE ${anyOther} END`
  const at = "timestamptz '2026-01-01Z' + n * interval '1 second'"
  const fill = (table: string, values: Readonly<Record<string, string>>) =>
    `INSERT INTO ${table} (${Object.keys(values).join(', ')})
     SELECT ${Object.values(values).join(', ')} FROM generate_series(1, ${rows}) AS n;`
  const listed = (kind: number) => ({ id: id(kind), merchant_id: merchant, created: at, position: 'n' })
  const money = { currency: "'DKK'", amount: '1' }
  const fees = { balance: '-1', fee_flat: '0', fee_rate: '0' }
  const zeros = ['refunded_amount', 'voided_amount', 'disputed_amount', 'refundable_value']
  return `SET session_replication_role = replica;
    ${fill('transactions', {
      ...listed(transaction),
      ...money,
      test: 'true',
      descriptor: "''",
      recurring: 'false',
      pending_amount: 'n % 2',
      captured_amount: '1 - n % 2',
      has_pending: 'n % 2 = 1',
      ...Object.fromEntries(zeros.map(column => [column, '0'])),
      card_bin: "'410000'",
      card_last4: "'0000'",
      card_expiry_year: '2030',
      card_expiry_month: '1',
      card_scheme: "'visa'",
      card_token: "''",
      card_fingerprint: "''",
      expires: at,
      reference: "'r' || n",
      processor_reference: "'p' || n",
    })}
    ${fill('trail_entries', {
      transaction_id: id(transaction),
      number: '0',
      id: id(other),
      kind: "'capture'",
      created: at,
      ...fees,
      amount: '1',
      descriptor: "''",
      line_id: id(line),
    })}
    ${fill('lines', {
      ...listed(line),
      ...fees,
      ...money,
      test: 'true',
      kind: "'payout'",
      description: "''",
      transaction_id: `CASE WHEN n % 4 < 2 THEN ${id(transaction)} END`,
    })}
    ${fill('ledger_entries', {
      id: id(entry),
      merchant_id: merchant,
      test: 'true',
      created: at,
      kind: "'payout'",
      line_id: `CASE WHEN n % 10 > 0 THEN ${id(line)} END`,
      dispute_id: `CASE WHEN n % 10 = 0 THEN ${id(dispute)} END`,
    })}
    ${[1, 2]
      .map(number =>
        fill('ledger_postings', {
          entry_id: id(entry),
          number: `${number}`,
          merchant_id: merchant,
          account: "'clearing'",
          ...money,
        }),
      )
      .join('')}
    ${fill('disputes', {
      ...listed(dispute),
      ...money,
      transaction_id: id(transaction),
      status: "'open'",
      held: '0',
      fee_flat: '0',
      fee_rate: '0',
      line_id: id(line),
    })}
    ${fill('frauds', { ...listed(fraud), transaction_id: id(transaction) })}
    ${fill('webhook_endpoints', {
      ...listed(endpoint),
      url: "''",
      events: "'{}'",
      secrets: "'{s}'",
      // Makes one disabled endpoint with deliveries, and two deleted ones without.
      disabled: `CASE WHEN n >= 20 THEN ${at} END`,
      deleted: `CASE WHEN n > 20 THEN ${at} END`,
    }).replace(`, ${rows})`, ', 22)')}
    ${fill('webhook_events', { ...listed(event), type: "'a'", subject_id: id(transaction), body: "'{}'" })}
    ${fill('webhook_deliveries', {
      endpoint_id: id(endpoint).replace('to_hex(n)', 'to_hex(1 + n % 20)'),
      // Each event of the newer half has two deliveries.
      event_id: id(event).replace('to_hex(n)', `to_hex(${rows / 2} + n / 2)`),
      subject_id: id(transaction),
      position: 'n',
      due: at,
      delivered: `CASE WHEN n % 4 < 2 THEN ${at} END`,
    })}
    ${fill('mails', {
      id: id(other),
      created: at,
      template: "'t'",
      recipient: "''",
      content: "'{}'",
      due: at,
      sent: `CASE n % 2 WHEN 0 THEN ${at} END`,
    })}
    ${fill('idempotency_keys', {
      scope: "'s'",
      key_hash: 'sha256(n::text::bytea)',
      fingerprint: "sha256('')",
      state: "'done'",
      status: '200',
      body: "''",
      created: at,
      expires: at,
    })}
    ${fill('processor_instructions', {
      transaction_id: id(transaction),
      number: '0',
      operation_id: id(other),
      kind: "'capture'",
      ...money,
      test: 'true',
      reference: "''",
      due: at,
    })}
    ${fill('authorisation_attempts', {
      reference: id(other),
      scope: "'s'",
      key_hash: "'a'",
      merchant_id: merchant,
      test: 'true',
      ...money,
      created: at,
      due: at,
    })}
    ${fill('processor_exceptions', {
      id: id(other),
      event_id: 'n',
      test: 'true',
      event: "'{}'",
      reason: "''",
      outcome: "CASE n % 2 WHEN 0 THEN 'waiting' ELSE 'refused' END",
      created: at,
      due: at,
    })}
    ${fill('test_processor_events', { id: 'n', due: at, event: "'{}'", told: 'n % 2 = 0' })}
    ${fill('test_processor_answers', {
      operation_id: 'n',
      approved: 'true',
      answer: "'{}'",
      created: at,
    })}
    ${fill('invitation_counts', { subject: 'n', since: at, count: '1' })}`
}
