import assert from 'node:assert/strict'
import { readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { manifest, startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const merchant = (more = '') => `apiVersion: tollway.dev/v1alpha1
kind: Merchant
metadata: {name: shop, namespace: sales}
spec:
  currency: DKK
  email: shop@example.org
  website: https://example.org
  descriptor: SHOP
  company: {country: DK}
${more}`

const failedKeys = 'API_FAILED_KEYS_PER_ADDRESS'
const maxFailedKeys = 20

test('a Merchant of a folder has an API key in a file, and is closed with its resource', async t => {
  const limits = manifest('a', 'checkout', { user: '1/hour' })
  const files = { 'shop.yaml': merchant(), 'limits.yaml': limits }
  const tollway = await startTollway(t, files, [
    '--payments',
    '--payments-env',
    `${failedKeys}=${maxFailedKeys}`,
  ])
  const file = join(tollway.stateDir, 'secrets/sales.shop.json')
  const entries = () => {
    const { stringData } = JSON.parse(readFileSync(file, 'utf8')) as { stringData: Record<string, string> }
    return { apiKey: '', merchantId: '', baseUrl: '', ...stringData }
  }
  const readStatus = async (key: string) => {
    const { baseUrl, merchantId } = entries()
    const authorization = `Basic ${Buffer.from(`:${key}`).toString('base64')}`
    return (await fetch(`${baseUrl}/merchants/${merchantId}`, { headers: { authorization } })).status
  }

  const report = await tollway.ready()
  const { apiKey, merchantId } = entries()
  assert.equal(await readStatus(apiKey), 200)
  assert.equal(statSync(file).mode & 0o777, 0o600)
  const status = report.resources.find(({ kind }) => kind === 'Merchant')
  assert.equal(status?.details?.['merchantId'], merchantId)
  assert.ok(!JSON.stringify(report).includes(apiKey))
  const link = status.details['payLink'] ?? ''
  assert.equal((await fetch(`${link}300`)).status, 200, `${link}300 is a payment page`)

  await t.test('a deleted file is written again, with another key', async () => {
    rmSync(file)
    // Any change of a manifest causes an immediate reconciliation.
    tollway.write('limits.yaml', manifest('a', 'checkout', { user: '2/hour' }))
    const key = await waitFor('another key', () => entries().apiKey)
    assert.notEqual(key, apiKey)
    assert.equal(entries().merchantId, merchantId)
    assert.equal(await readStatus(key), 200)
    await waitFor('the old key to open nothing', async () => (await readStatus(apiKey)) === 401)
  })

  await t.test('the API key is rejected once the resource is deleted', async () => {
    const saved = entries()
    tollway.write('shop.yaml', merchant('  deletionPolicy: Delete\n'))
    const generation = () =>
      tollway.status().resources.find(({ kind }) => kind === 'Merchant')?.observedGeneration
    await waitFor('the policy to be noted', () => generation() === 2)
    await tollway.ready()
    rmSync(join(tollway.folder, 'shop.yaml'))
    const authorization = `Basic ${Buffer.from(`:${saved.apiKey}`).toString('base64')}`
    const url = `${saved.baseUrl}/merchants/${merchantId}`
    await waitFor(
      'the key to open nothing',
      async () => (await fetch(url, { headers: { authorization } })).status === 401,
    )
    await waitFor('the file to be gone', () => statSync(file, { throwIfNoEntry: false }) === undefined)
  })

  await t.test('calls of the API are counted by the rate limit service', async () => {
    const limits = tollway.status().resources.find(({ name }) => name === 'tollway-payments-api')
    assert.ok(
      limits?.conditions.every(({ status }) => status === 'True'),
      JSON.stringify(limits),
    )
    const { addresses } = tollway.status()
    const ask = async () => {
      // A call of 0 hits changes nothing.
      const entries = [{ key: 'failed_key', value: '127.0.0.1' }]
      const body = JSON.stringify({
        domain: 'tollway-payments-api',
        descriptors: [{ entries, hitsAddend: '0' }],
      })
      const answer = await fetch(`${addresses['http']}/json`, { method: 'POST', body })
      return (await answer.json()) as { statuses: { currentLimit?: object; limitRemaining?: number }[] }
    }
    await waitFor('the service to have counted a wrong key', async () => {
      const headers = { authorization: `Basic ${Buffer.from(':wrong').toString('base64')}` }
      await fetch(`${addresses['payments']}/me`, { headers })
      const [counted] = (await ask()).statuses
      assert.ok(counted?.currentLimit !== undefined, 'the service has the limit')
      return (counted.limitRemaining ?? 0) < maxFailedKeys
    })
  })
})
