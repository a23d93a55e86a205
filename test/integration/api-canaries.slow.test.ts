import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { type ApiEndpoint, apiEndpoints } from '../../operator/api/endpoints.ts'
import type { StreamList } from '../../operator/api/stream-shapes.ts'
import { openAnimationClient } from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { programs } from '../support/programs.ts'
import { manifest, startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const secret = 'canary-of-a-secret-7f3a'
const token = 'canary-of-a-token-7f3a'
const card = '4100000000000000'
/** The test processor approves it. */
const paidCard = '4100000000000001'
const securityCode = '739'
const streamToken = 'canary-of-a-stream-token-7f3a'
const note = 'canary-of-a-note-7f3a'

/** The Secrets are in the file of the limits, since a manifest is read from there. */
const secrets = `---
apiVersion: v1
kind: Secret
metadata: {name: webhook, namespace: default}
stringData: {token: ${secret}, card: "${card}"}
---
apiVersion: v1
kind: Secret
metadata: {name: kiosk, namespace: default}
stringData: {token: ${streamToken}}
`
/** A route that no request passes without the token. */
const route = `apiVersion: tollway.dev/v1alpha1
kind: AnimationStreamRoute
metadata: {name: kiosk, namespace: default}
spec: {tokenSecretRef: {name: kiosk, key: token}}
`
const merchant = `apiVersion: tollway.dev/v1alpha1
kind: Merchant
metadata: {name: cafe, namespace: default}
spec:
  name: Café
  email: cafe@example.org
  website: https://cafe.example.org
  descriptor: CAFE
  currency: EUR
  company: {country: DK}
  secretRef: {name: cafe-payments}
`

/** Pays on the payment page of the merchant, captures the half, and proves the books. */
async function sell({ apiKey, baseUrl, payPageUrl, publicKey, merchantId }: Entries, stateDir: string) {
  const query = new URLSearchParams({ key: publicKey, currency: 'EUR', amount: '5000', custom: note })
  const page = `${payPageUrl}/?${query}`
  const [, formToken = ''] = /name="token" value="([^"]+)"/.exec(await (await fetch(page)).text()) ?? []
  const form = { token: formToken, number: paidCard, expiry: '08 / 66', code: securityCode }
  const paid = await fetch(page, { method: 'POST', body: new URLSearchParams(form), redirect: 'manual' })
  assert.equal(paid.status, 303, await paid.text())
  const authorization = `Basic ${Buffer.from(`:${apiKey}`).toString('base64')}`
  const headers = { authorization, 'content-type': 'application/json' }
  const listed = await fetch(`${baseUrl}/merchants/${merchantId}/transactions?limit=1`, { headers })
  const [{ id } = { id: '' }] = (await listed.json()) as { readonly id: string }[]
  const body = JSON.stringify({ amount: 2_500, currency: 'EUR', descriptor: 'CAFE' })
  const captured = await fetch(`${baseUrl}/transactions/${id}/captures`, { method: 'POST', headers, body })
  assert.equal(captured.status, 201, await captured.text())
  const env = { ...process.env, STATE_DIR: stateDir, DATABASE_URL: '' }
  await promisify(execFile)(process.execPath, [programs.tollway, 'payments', 'verify'], { env })
}

type Entries = Readonly<Record<'apiKey' | 'baseUrl' | 'payPageUrl' | 'publicKey' | 'merchantId', string>>

/** Bodies that are not valid, and hold what a user could have pasted. */
const bodies = [`{"domain": "${card}`, JSON.stringify({ card, domain: 'shop', entries: [] })]

test('no answer of the API, file of the console or log contains a secret, token or card number', {
  timeout: 240_000,
}, async t => {
  const limits = manifest('shop', 'shop', { user: '3/minute' })
  const files = { 'shop.yaml': `${limits}${secrets}`, 'cafe.yaml': merchant, 'kiosk.yaml': route }
  const tollway = await startTollway(t, files, ['--payments', '--broker-replicas', '1'])
  const { addresses } = await tollway.ready()
  const credentials = join(tollway.stateDir, 'secrets')
  await waitFor('the credentials of the merchant', async () => readdirSync(credentials).length === 1)
  const file = readFileSync(join(credentials, readdirSync(credentials)[0] ?? ''), 'utf8')
  const { stringData } = JSON.parse(file) as { stringData: Entries }
  const { apiKey } = stringData
  assert.notEqual(apiKey, '')
  await sell(stringData, tollway.stateDir)
  const pusher = openAnimationClient(t, `127.0.0.1:${tollway.brokerPort}`)
  const push = pusher.push({ authorization: `Bearer ${streamToken}` })
  push.write(encodeText('header', 'one'))
  t.after(() => push.cancel())
  await push.headers
  const answers: string[] = []
  const ask = async (path: string, init: RequestInit = {}) => {
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    const signal = AbortSignal.timeout(10_000)
    const response = await fetch(`${addresses['operator']}${path}`, { headers, signal, ...init })
    answers.push(`${path} ${JSON.stringify([...response.headers])} ${await response.text()}`)
  }
  /** Reads the first events of a stream. */
  async function readStart(path: string): Promise<void> {
    const end = new AbortController()
    const response = await fetch(`${addresses['operator']}${path}`, { signal: end.signal })
    for await (const chunk of response.body ?? []) {
      answers.push(`${path} ${Buffer.from(chunk)}`)
      if (answers.at(-1)?.includes('data:')) break
    }
    end.abort()
  }
  const query = 'domain=shop&rule=shop.user&descriptor=user=alice&name=shop&key=k'
  for (const { method, path, parameters, events } of apiEndpoints as readonly ApiEndpoint[]) {
    const place = `/api/v1${path.replace('{domain}', 'shop')}`
    const known = query.split('&').filter(pair => parameters.some(({ name }) => pair.startsWith(`${name}=`)))
    if (method === 'POST') for (const body of bodies) await ask(place, { method, body })
    else if (events === undefined) await ask(`${place}?${known.join('&')}`)
    else await readStart(`${place}?domain=shop`)
    await ask(`${place}?unknown=1`)
    await ask(place, { method: 'DELETE' })
  }
  for (const kind of ['RateLimitConfig', 'AnimationStreamRoute', 'Merchant']) {
    await ask(`/api/v1/resources?kind=${kind}`)
    await ask(`/api/v1/manifest?kind=${kind}&name=cafe`)
  }
  const streams = await waitFor('the stream', async () => {
    const response = await fetch(`${addresses['operator']}/api/v1/streams`)
    const { items } = (await response.json()) as StreamList
    return items.length > 0 && items
  })
  await ask('/api/v1/streams')
  for (const { key } of streams) await ask(`/api/v1/streams/preview?key=${encodeURIComponent(key)}`)
  for (const path of ['/console', '/console/', '/console/app.js', '/console/style.css', '/', '/status'])
    await ask(path)
  assert.ok(
    answers.some(answer => answer.includes('kind: RateLimitConfig')),
    'no manifest was read',
  )
  assert.ok(
    answers.some(answer => answer.includes('kind: Merchant')),
    'no merchant was read',
  )
  assert.ok(
    answers.some(answer => answer.startsWith('/api/v1/streams/preview') && answer.includes('"ended":false')),
    'no preview was read',
  )
  const sold = answers.find(answer => answer.startsWith('/api/v1/merchants? ')) ?? ''
  // 25.00 EUR less a fee, and 25.00 that wait.
  assert.match(sold, /"available":\{"currency":"EUR","amount":"2[45]\d\d","exponent":2\}/)
  assert.match(sold, /"pending":\[\{"currency":"EUR","amount":"2500"/)
  assert.match(sold, /"passed":true,"findings":0,"records":\{"merchants":1,"transactions":1/)
  const log = readFileSync(join(tollway.stateDir, 'tollway.log'), 'utf8')
  const status = readFileSync(join(tollway.stateDir, 'status.json'), 'utf8')
  const texts = [...answers, log, status, tollway.program.output()]
  const provisionToken = readFileSync(join(tollway.stateDir, 'provision-token'), 'utf8').trim()
  const groups = paidCard.replaceAll(/(\d{4})(?=\d)/g, '$1 ')
  const canaries = { secret, token, card, apiKey, provisionToken, paidCard, groups, note, streamToken }
  for (const [name, canary] of Object.entries(canaries)) {
    const found = texts.find(text => text.includes(canary))
    assert.equal(found, undefined, `${name} is in ${found?.slice(0, 300)}`)
  }
})
