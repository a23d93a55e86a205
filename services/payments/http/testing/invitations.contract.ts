import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { type ApiUnderTest, openShop, sharedApi, type TestResponse, type TestShop } from './api-under-test.ts'

const limits = { perApp: 100, perMerchant: 50, perRecipient: 3 }

let api: ApiUnderTest
before(async () => {
  api = await sharedApi()
})

const invite = ({ merchantId, key }: TestShop, email: string) =>
  api.call('POST', `/merchants/${merchantId}/users`, { key, json: { email } })

const revoke = async ({ merchantId, key }: TestShop, invited: TestResponse) => {
  const { user } = invited.json as { user: { id: string } }
  const { status } = await api.call('DELETE', `/merchants/${merchantId}/users/${user.id}`, { key })
  assert.equal(status, 204)
}

async function mailsTo(email: string): Promise<number> {
  const sql = 'SELECT 1 AS one FROM mails WHERE lower(recipient) = lower($1)'
  return (await api.storage.transaction(tx => tx.query(sql, [email]))).length
}

/** Returns an address that no other test uses. */
const someEmail = () => `${crypto.randomUUID()}@example.com`

test('repeated invitations and revocations send few mails, and the answers do not reveal it', async () => {
  const shops = [await openShop(api), await openShop(api)]
  const victim = someEmail()
  for (let round = 0; round < 20; round += 1) {
    const shop = shops[round % 2] as TestShop
    const invited = await invite(shop, round % 3 === 0 ? victim.toUpperCase() : victim)
    assert.equal(invited.status, 201, invited.text)
    await revoke(shop, invited)
  }
  assert.equal(await mailsTo(victim), limits.perRecipient)
  api.clock.elapse(24 * 60 * 60 * 1000)
  assert.equal((await invite(shops[0] as TestShop, victim)).status, 201)
  assert.equal(await mailsTo(victim), limits.perRecipient + 1)
})

test('the invitations of a merchant and of an app are limited by day', async t => {
  const { invitationLimits } = api.payments
  t.after(() => Object.assign(invitationLimits, limits))
  for (const limit of ['perApp', 'perMerchant'] as const) {
    Object.assign(invitationLimits, { ...limits, [limit]: 2 })
    const shop = await openShop(api)
    const answers = await Promise.all([1, 2, 3, 4].map(() => invite(shop, someEmail())))
    assert.deepEqual(answers.map(({ status }) => status).toSorted(), [201, 201, 429, 429], limit)
    const rejected = answers.find(({ status }) => status === 429)
    const seconds = Number(rejected?.headers.get('retry-after'))
    assert.ok(seconds > 86_000 && seconds <= 86_400, `${seconds} s`)
    const members = await api.call('GET', `/merchants/${shop.merchantId}/users?limit=9`, shop)
    assert.equal((members.json as unknown[]).length, 2)
  }
})

test('an answer reveals nothing of the invitations of other merchants', async () => {
  const [first, second] = [await openShop(api), await openShop(api)]
  const known = someEmail()
  const elsewhere = await invite(first, known.toUpperCase())
  api.clock.elapse(60 * 60 * 1000)
  const startMs = api.clock.nowMs()
  const users = []
  for (const email of [known, someEmail()]) {
    const { user } = (await invite(second, email)).json as {
      user: { id: string; email: string; created: string }
    }
    assert.equal(user.email, email)
    assert.ok(Date.parse(user.created) >= startMs, user.created)
    // The id begins with the time of its creation, because it is a UUID of version 7.
    assert.ok(Number.parseInt(user.id.replace('-', '').slice(0, 12), 16) >= startMs, user.id)
    assert.ok(!elsewhere.text.includes(user.id))
    users.push(user)
  }
  const list = (query: string) =>
    api.call('GET', `/merchants/${second.merchantId}/users?limit=1${query}`, second)
  assert.deepEqual((await list('')).json, [users[1]])
  assert.deepEqual((await list(`&before=${users[1]?.id}`)).json, [users[0]])
})
