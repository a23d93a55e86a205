import assert from 'node:assert/strict'
import { join } from 'node:path'
import { after, before, describe, test } from 'node:test'
import { checkOut, checkoutOf, missingHistory } from '../support/earlier-commit.ts'
import { missingPostgres, type PostgresServer, startPostgres } from '../support/postgres-server.ts'
import { previousRelease } from '../versions/previous-release.ts'
import {
  askAdmin,
  openShop,
  type PaymentsProcess,
  removeState,
  type Shop,
  startPaymentsProcess,
} from './payments-process.ts'

/** Pods of these versions run beside current ones in an upgrade. */
const earlierVersions = {
  '0.1.0': previousRelease.commit,
  // The schema of this preview ends with the migration 0009.
  'a preview with an earlier schema': 'edfd34d',
}

for (const [version, commit] of Object.entries(earlierVersions)) testBeside(version, commit)

function testBeside(version: string, previous: string): void {
  describe(`a payments pod of ${version} beside one of the current version`, {
    skip: missingPostgres() || missingHistory(previous),
  }, () => {
    let postgres: PostgresServer
    let url: string
    let old: PaymentsProcess
    let today: PaymentsProcess
    let shop: Shop

    before(async () => {
      checkOut(previous)
      postgres = await startPostgres()
      url = await postgres.createDatabase('payments')
      const main = join(checkoutOf(previous), 'services/payments/main.ts')
      // Creates the old schema. The first present program migrates it while the old one runs.
      old = await startPaymentsProcess(url, {}, main)
      shop = await openShop(url, old.url)
      today = await startPaymentsProcess(url)
    })
    after(async () => {
      await Promise.all([old, today].map(pod => pod?.kill()))
      await postgres?.stop()
      await removeState()
    })

    async function call(pod: PaymentsProcess, method: string, path: string, json?: object): Promise<unknown> {
      const headers = { authorization: shop.authorization, accept: 'application/json' }
      const body = json && { body: JSON.stringify(json) }
      const content = json && { 'content-type': 'application/json' }
      const response = await fetch(pod.url + path, { method, headers: { ...headers, ...content }, ...body })
      const text = await response.text()
      assert.ok(response.status < 300, `${method} ${path}: ${response.status} ${text}\n${pod.output()}`)
      return text === '' ? undefined : JSON.parse(text)
    }

    interface Read {
      readonly capturedAmount: number
      readonly refundedAmount: number
      readonly voidedAmount: number
      readonly trail: readonly object[]
    }

    test('both versions work on the same transactions in turns, and the books are right', async () => {
      const pay = async (pod: PaymentsProcess) => {
        const input = { transactionId: shop.transactionId, currency: 'EUR', amount: 1_000 }
        const made = await call(pod, 'POST', `/merchants/${shop.merchantId}/transactions`, input)
        return (made as { transaction: { id: string } }).transaction.id
      }
      const live = async (first: PaymentsProcess, second: PaymentsProcess) => {
        const id = await pay(first)
        const pods = [first, second]
        for (let step = 0; step < 12; step += 1) {
          const kind = ['captures', 'refunds', 'voids'][step % 3] ?? ''
          const amount = kind === 'captures' ? 101 : 33
          await call(
            pods[(step + Math.floor(step / 3)) % 2] ?? first,
            'POST',
            `/transactions/${id}/${kind}`,
            {
              amount,
            },
          )
        }
        for (const pod of pods) {
          const { transaction } = (await call(pod, 'GET', `/transactions/${id}`)) as { transaction: Read }
          const { capturedAmount, refundedAmount, voidedAmount, trail } = transaction
          assert.deepEqual([capturedAmount, refundedAmount, voidedAmount, trail.length], [404, 132, 132, 12])
        }
        await call(first, 'POST', `/transactions/${id}/refunds`, { amount: 272 })
      }
      await Promise.all(
        Array.from({ length: 8 }, (_, index) => (index % 2 === 0 ? live(old, today) : live(today, old))),
      )
      const { code, output } = await askAdmin(url, ['verify'])
      assert.equal(code, 0, output)
    })

    test('each version reads and removes what the other has created', async () => {
      const users = `/merchants/${shop.merchantId}/users`
      for (const [first, second] of [
        [old, today],
        [today, old],
      ] as const) {
        const email = `joe-${first === old ? 'old' : 'new'}@example.com`
        await call(first, 'POST', users, { email })
        const listed = (await call(second, 'GET', `${users}?limit=10`)) as { id: string; email: string }[]
        const [member] = listed
        assert.equal(member?.email, email)
        await call(second, 'DELETE', `${users}/${member?.id}`)
        assert.deepEqual(await call(first, 'GET', `${users}?limit=10`), [])
        await call(first, 'GET', `/merchants/${shop.merchantId}/events?limit=10`)
      }
    })

    test('the old version has every row after a rollback, and repeats answers of the new one', async () => {
      const capture = (pod: PaymentsProcess, key: string) =>
        fetch(`${pod.url}/transactions/${shop.transactionId}/captures`, {
          method: 'POST',
          headers: {
            authorization: shop.authorization,
            'content-type': 'application/json',
            'idempotency-key': key,
          },
          body: JSON.stringify({ amount: 700 }),
        }).then(async response => ({ status: response.status, text: await response.text() }))
      const first = await capture(today, 'before-the-rollback')
      assert.ok(first.status < 300, first.text)
      await call(today, 'POST', `/transactions/${shop.transactionId}/refunds`, { amount: 100 })
      await today.kill()
      // No process of the current version runs any more, and the schema is its own.
      await old.kill()
      await old.start()
      assert.deepEqual(await capture(old, 'before-the-rollback'), first)
      const second = await capture(old, 'after-the-rollback')
      assert.ok(second.status < 300, second.text)
      await call(old, 'POST', `/transactions/${shop.transactionId}/refunds`, { amount: 600 })
      await today.start()
      assert.deepEqual(await capture(today, 'after-the-rollback'), second)
      const read = await call(today, 'GET', `/transactions/${shop.transactionId}`)
      const { capturedAmount, refundedAmount } = (read as { transaction: Read }).transaction
      assert.deepEqual([capturedAmount, refundedAmount], [1_400, 700])
      const { code, output } = await askAdmin(url, ['verify'])
      assert.equal(code, 0, output)
    })

    test('neither version logs an error', () => {
      for (const pod of [old, today]) assert.doesNotMatch(pod.output(), /level=error/)
    })
  })
}
