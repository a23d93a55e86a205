/**
 * A program of a merchant, as it runs in a pod: its environment is the Secret of the Merchant. It prints what
 * came of it as JSON.
 *
 *   till.ts sell    a payment on the page with a test card, a capture and a refund
 *   till.ts rush    captures without an end until the standard input ends; then reads all of it again
 */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { type Counts, createRetryingClient, type RetryingClient } from '../payments/retrying-client.ts'
import { callRelay, uncoveredMs } from './relay-client.ts'

export interface Sale {
  readonly transaction: SoldTransaction
  readonly lines: readonly Line[]
}

export interface Rush extends Omit<Counts, 'waits'> {
  /** The longest wait of the control. */
  readonly controlMs: number
  /** The longest time of a wait in which no call to the control was late. */
  readonly beyondControlMs: number
  readonly transactions: number
  readonly captures: number
  /** The transactions that differ from their answers. */
  readonly wrong: readonly string[]
}

interface SoldTransaction {
  readonly id: string
  readonly capturedAmount: number
  readonly refundedAmount: number
  readonly pendingAmount: number
}

interface Line {
  readonly amount: { readonly amount: number; readonly currency: string }
  readonly transactionId: string
}

const env = (name: string) => {
  const value = process.env[name] ?? ''
  assert.notEqual(value, '', name)
  return value
}

const url = env('PAYMENTS_URL')
const merchant = `/merchants/${env('PAYMENTS_MERCHANT_ID')}`
const authorization = `Basic ${Buffer.from(`:${env('PAYMENTS_API_KEY')}`).toString('base64')}`
const client = createRetryingClient({ url, authorization, deadlineMs: 60_000 })
const currency = 'DKK'

async function read<T>(path: string): Promise<T> {
  const response = await fetch(url + path, { headers: { authorization } })
  assert.equal(response.status, 200, path)
  return (await response.json()) as T
}

async function change(from: RetryingClient, path: string, json: object): Promise<SoldTransaction> {
  const { status, body } = await from.post(path, json)
  assert.equal(status, 201, `${path}: ${body}`)
  return (JSON.parse(body) as { transaction: SoldTransaction }).transaction
}

/** Pays like a payer whose browser runs no scripts. */
async function payOnPage(amount: number): Promise<string> {
  const query = new URLSearchParams({ key: env('PAYMENTS_PUBLIC_KEY'), currency, amount: `${amount}` })
  const page = `${env('PAYMENTS_PAGE_URL')}/?${query}`
  const [, token = ''] = /name="token" value="([^"]+)"/.exec(await (await fetch(page)).text()) ?? []
  const form = { token, number: '4100 0000 0000 0001', expiry: '08 / 66', code: '123' }
  const paid = await fetch(page, { method: 'POST', body: new URLSearchParams(form), redirect: 'manual' })
  assert.equal(paid.status, 303, await paid.text())
  const [newest] = await read<SoldTransaction[]>(`${merchant}/transactions?limit=1`)
  return newest?.id ?? ''
}

async function sell(): Promise<Sale> {
  const id = await payOnPage(10_000)
  await change(client, `/transactions/${id}/captures`, { amount: 7_500, currency })
  const transaction = await change(client, `/transactions/${id}/refunds`, { amount: 500, currency })
  const lines = await read<Line[]>(`${merchant}/lines?limit=10`)
  return { transaction, lines }
}

const cashiers = 4
const pauseMs = 20
const amountOfCapture = 100
const capturesOfEach = 3
/** As many as a capture makes to the database. */
const roundTripsOfCapture = 4
/** A call of the control takes a few milliseconds. */
const lateCallMs = 50

async function rush(): Promise<Rush> {
  const first = await payOnPage(1_000)
  const promised = new Map<string, number>()
  let closed = false
  async function cashier(): Promise<void> {
    while (!closed) {
      const amount = amountOfCapture * capturesOfEach
      const { id } = await change(client, `${merchant}/transactions`, {
        transactionId: first,
        currency,
        amount,
      })
      for (let capture = 1; capture <= capturesOfEach && !closed; capture++) {
        const json = { amount: amountOfCapture, currency }
        const { capturedAmount } = await change(client, `/transactions/${id}/captures`, json)
        assert.equal(capturedAmount, capture * amountOfCapture, id)
        promised.set(id, capturedAmount)
        await pause(pauseMs)
      }
    }
  }
  const controls = Array.from({ length: cashiers }, () =>
    callRelay(env('RELAY'), roundTripsOfCapture, pauseMs, lateCallMs),
  )
  const running = Array.from({ length: cashiers }, cashier)
  process.stdin.resume()
  await once(process.stdin, 'end')
  closed = true
  await Promise.all([...running, ...controls.map(control => control.stop())])
  const late = controls.flatMap(control => control.late)
  const { waits, ...counts } = client.counts()
  return {
    ...{ ...(await compare(promised)), ...counts },
    controlMs: longest(late.map(({ beginMs, endMs }) => endMs - beginMs)),
    beyondControlMs: longest(waits.map(wait => uncoveredMs(wait, late))),
  }
}

const longest = (times: readonly number[]) => Math.round(Math.max(0, ...times))

async function compare(promised: ReadonlyMap<string, number>) {
  const wrong: string[] = []
  for (const [id, amount] of promised) {
    const { transaction } = await read<{ transaction: SoldTransaction }>(`/transactions/${id}`)
    if (transaction.capturedAmount === amount) continue
    wrong.push(`${id}: ${transaction.capturedAmount} are captured, and ${amount} were promised`)
  }
  const sum = [...promised.values()].reduce((total, amount) => total + amount, 0)
  return { transactions: promised.size, captures: sum / amountOfCapture, wrong }
}

const what = process.argv[2] === 'rush' ? rush : sell
process.stdout.write(`${JSON.stringify(await what())}\n`)
process.stdin.destroy()
