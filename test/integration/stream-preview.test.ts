import assert from 'node:assert/strict'
import { test } from 'node:test'
import { openAnimationClient } from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { manifest, startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

test('the API of an operator relays the preview of its broker', async t => {
  const files = { 'shop.yaml': manifest('shop', 'shop', { user: '3/minute' }) }
  const tollway = await startTollway(t, files, ['--broker-replicas', '1'])
  const { addresses } = await tollway.ready()
  const push = openAnimationClient(t, `127.0.0.1:${tollway.brokerPort}`).push()
  push.write(encodeText('header'))
  const get = async (path: string) => {
    const response = await fetch(`${addresses['operator']}/api/v1/streams${path}`)
    return { status: response.status, body: (await response.json()) as Record<string, unknown> }
  }
  const items = async () => (await get('')).body['items'] as { key: string }[]
  await waitFor('the request', async () => (await items()).length === 1)
  const [{ key } = { key: '' }] = await items()
  const { status, body } = await get(`/preview?key=${encodeURIComponent(key)}`)
  assert.equal(status, 200, JSON.stringify(body))
  assert.equal(body['key'], key)
  assert.partialDeepStrictEqual(body['preview'], { messages: 0, blendShapes: [], times: [] })
  assert.equal((await get('/preview?key=none')).status, 404)
  push.cancel()
})
